//! Phone numbers become E.164 or nothing: a number that cannot be told for sure is not stored.

/// How a country writes its numbers.
struct Plan {
    region: &'static str,
    code: &'static str,
    /// The digit dialled before a national number and dropped abroad.
    trunk: Option<&'static str>,
    /// Digits of a national number without the trunk digit.
    digits: std::ops::RangeInclusive<usize>,
}

const fn plan(
    region: &'static str,
    code: &'static str,
    trunk: Option<&'static str>,
    min: usize,
    max: usize,
) -> Plan {
    Plan { region, code, trunk, digits: min..=max }
}

/// Calling codes are prefix-free, so the first match is the only one. Italy keeps its zero.
const PLANS: &[Plan] = &[
    plan("US", "1", Some("1"), 10, 10),
    plan("CA", "1", Some("1"), 10, 10),
    plan("NL", "31", Some("0"), 9, 9),
    plan("BE", "32", Some("0"), 8, 9),
    plan("FR", "33", Some("0"), 9, 9),
    plan("ES", "34", None, 9, 9),
    plan("IT", "39", None, 6, 11),
    plan("CH", "41", Some("0"), 9, 9),
    plan("AT", "43", Some("0"), 7, 13),
    plan("GB", "44", Some("0"), 9, 10),
    plan("DK", "45", None, 8, 8),
    plan("SE", "46", Some("0"), 7, 9),
    plan("NO", "47", None, 8, 8),
    plan("PL", "48", None, 9, 9),
    plan("DE", "49", Some("0"), 6, 11),
    plan("PT", "351", None, 9, 9),
    plan("IE", "353", Some("0"), 7, 9),
    plan("FI", "358", Some("0"), 6, 11),
];

/// The E.164 form of a number as a person writes it, read as a number of `region` (an ISO 3166
/// code) where it has no international prefix.
///
/// ```
/// use desk::phone::to_e164;
/// assert_eq!(to_e164("(020) 7946 0018", Some("GB")).as_deref(), Some("+442079460018"));
/// assert_eq!(to_e164("call me", Some("GB")), None);
/// ```
pub fn to_e164(raw: &str, region: Option<&str>) -> Option<String> {
    // "(0)" after a country code is a note to readers at home, not part of the number.
    let international_hint =
        raw.trim_start().starts_with('+') || raw.trim_start().starts_with("00");
    let text = if international_hint { raw.replace("(0)", "") } else { raw.to_owned() };
    let text = text.trim();
    let (plus, body) = match text.strip_prefix('+') {
        Some(body) => (true, body),
        None => (false, text),
    };
    let mut digits = String::with_capacity(body.len());
    for character in body.chars() {
        match character {
            '0'..='9' => digits.push(character),
            ' ' | '-' | '.' | '(' | ')' | '/' | '\u{a0}' => {}
            _ => return None,
        }
    }
    if plus {
        return international(&digits);
    }
    if let Some(rest) = digits.strip_prefix("00") {
        return international(rest);
    }
    let region = region?;
    let plan = PLANS.iter().find(|plan| plan.region.eq_ignore_ascii_case(region))?;
    let national = match plan.trunk {
        Some(trunk) => digits.strip_prefix(trunk).unwrap_or(&digits),
        None => &digits,
    };
    complete(plan, national)
}

fn international(digits: &str) -> Option<String> {
    match PLANS.iter().find(|plan| digits.starts_with(plan.code)) {
        Some(plan) => complete(plan, digits.strip_prefix(plan.code)?),
        // A country without a plan here: only the bounds of the standard can be checked.
        None if (8..=15).contains(&digits.len()) && !digits.starts_with('0') => {
            Some(format!("+{digits}"))
        }
        None => None,
    }
}

fn complete(plan: &Plan, national: &str) -> Option<String> {
    let leading_zero = national.starts_with('0') && plan.region != "IT";
    // North American area codes and exchanges start at 2.
    let bad_area = plan.code == "1" && national.starts_with('1');
    let fits = plan.digits.contains(&national.len()) && !leading_zero && !bad_area;
    fits.then(|| format!("+{}{national}", plan.code))
}

#[cfg(test)]
mod tests {
    use super::to_e164;
    use proptest::prelude::*;

    #[test]
    fn numbers_become_e164_by_region() {
        let cases = [
            ("030 23125-014", Some("DE"), "+493023125014"),
            ("+49 (0)30 23125 014", None, "+493023125014"),
            ("0049 30 23125014", Some("GB"), "+493023125014"),
            ("(415) 555-0132", Some("us"), "+14155550132"),
            ("1 415 555 0132", Some("US"), "+14155550132"),
            ("07700 900123", Some("GB"), "+447700900123"),
            ("06 1234 5678", Some("IT"), "+390612345678"),
            ("+81 3 1234 5678", None, "+81312345678"),
        ];
        for (raw, region, expected) in cases {
            assert_eq!(to_e164(raw, region).as_deref(), Some(expected), "{raw}");
        }
    }

    #[test]
    fn a_number_that_cannot_be_told_is_nothing() {
        let cases = [
            ("", Some("DE")),
            ("12345", Some("DE")),
            ("030 23125014", None),
            ("030 23125014", Some("XX")),
            ("415-555-013", Some("US")),
            ("+1 115 555 0132", None),
            ("0301234567 ext. 5", Some("DE")),
            ("+12", None),
            ("1234567890123456789", Some("DE")),
            ("+49 49 0", None),
        ];
        for (raw, region) in cases {
            assert_eq!(to_e164(raw, region), None, "{raw}");
        }
    }

    proptest! {
        #[test]
        fn the_result_is_always_e164(raw in "\\PC{0,24}", region in "DE|GB|US|IT|FR") {
            if let Some(number) = to_e164(&raw, Some(&region)) {
                let digits = number.strip_prefix('+').unwrap();
                prop_assert!((7..=15).contains(&digits.len()));
                prop_assert!(digits.bytes().all(|byte| byte.is_ascii_digit()));
                prop_assert_eq!(to_e164(&number, None), Some(number.clone()));
            }
        }
    }
}
