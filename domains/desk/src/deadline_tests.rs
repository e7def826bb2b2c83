use jiff::tz::TimeZone;
use proptest::prelude::*;

use super::*;

/// Wednesday, 18 November 2026, 10:30 in Berlin.
fn now() -> ZonedDateTime {
    let berlin = TimeZone::get("Europe/Berlin").unwrap();
    jiff::civil::date(2026, 11, 18).at(10, 30, 0, 0).to_zoned_datetime(berlin).unwrap()
}

fn read(phrase: &str) -> String {
    match parse(phrase, &now()) {
        Ok(moment) => {
            let local = moment.to_zoned_datetime(now().time_zone().clone()).datetime();
            local.to_string().trim_end_matches("T23:59:59").to_owned()
        }
        Err(error) => error.to_string(),
    }
}

#[test]
fn phrases_mean_the_day_a_person_means() {
    let cases = [
        ("today", "2026-11-18"),
        ("Tonight", "2026-11-18"),
        ("tomorrow", "2026-11-19"),
        ("by tomorrow.", "2026-11-19"),
        ("the day after tomorrow", "2026-11-20"),
        ("friday", "2026-11-20"),
        ("on Friday", "2026-11-20"),
        ("this friday", "2026-11-20"),
        ("next friday", "2026-11-27"),
        ("wednesday", "2026-11-25"),
        ("next monday", "2026-11-23"),
        ("next week", "2026-11-23"),
        ("next month", "2026-12-18"),
        ("in 3 days", "2026-11-21"),
        ("in two weeks", "2026-12-02"),
        ("in a month", "2026-12-18"),
        ("3 days from now", "2026-11-21"),
        ("in 3 workdays", "2026-11-23"),
        ("a week from friday", "2026-11-27"),
        ("end of day", "2026-11-18"),
        ("end of week", "2026-11-20"),
        ("end of next week", "2026-11-27"),
        ("end of month", "2026-11-30"),
        ("end of the month", "2026-11-30"),
        ("end of next month", "2026-12-31"),
        ("end of quarter", "2026-12-31"),
        ("end of next quarter", "2027-03-31"),
        ("end of year", "2026-12-31"),
        ("end of february", "2027-02-28"),
        ("12 march", "2027-03-12"),
        ("March 12th", "2027-03-12"),
        ("12th of march 2028", "2028-03-12"),
        ("friday, 12 march", "2027-03-12"),
        ("dec 24", "2026-12-24"),
        ("2026-12-24", "2026-12-24"),
        ("24.12.2026", "2026-12-24"),
    ];
    for (phrase, expected) in cases {
        assert_eq!(read(phrase), expected, "{phrase}");
    }
}

#[test]
fn a_time_of_day_is_kept() {
    let cases = [
        ("tomorrow at 5pm", "2026-11-19T17:00:00"),
        ("friday at 15:00", "2026-11-20T15:00:00"),
        ("next monday 9:30 am", "2026-11-23T09:30:00"),
        ("at noon", "2026-11-18T12:00:00"),
        ("tomorrow morning", "2026-11-19T12:00:00"),
        ("in 2 hours", "2026-11-18T12:30:00"),
        ("in half an hour", "2026-11-18T11:00:00"),
        ("2026-12-24T08:15", "2026-12-24T08:15:00"),
        ("2026-12-24 08:15", "2026-12-24T08:15:00"),
        ("2026-12-24T08:15:00Z", "2026-12-24T09:15:00"),
    ];
    for (phrase, expected) in cases {
        assert_eq!(read(phrase), expected, "{phrase}");
    }
}

#[test]
fn what_cannot_be_read_for_sure_is_refused() {
    let unknown = |text: &str| DeadlineError::Unknown(text.to_owned());
    let cases = [
        ("", unknown("")),
        ("soon", unknown("soon")),
        ("friday week", unknown("friday week")),
        ("tomorrow at 5", unknown("tomorrow at 5")),
        ("monday, 12 march", unknown("monday, 12 march")),
        ("2026-02-30", DeadlineError::Impossible("2026-02-30".into())),
        ("31 february", DeadlineError::Impossible("31 february".into())),
        ("03/04/2027", DeadlineError::DayOrMonth("03/04/2027".into())),
        ("2026-11-17", DeadlineError::Past("2026-11-17".into())),
        ("this monday", DeadlineError::Past("this monday".into())),
        ("at 9am", DeadlineError::Past("at 9am".into())),
        ("in 99999999999 days", DeadlineError::TooFar("in 99999999999 days".into())),
        ("2126-01-01", DeadlineError::TooFar("2126-01-01".into())),
    ];
    for (phrase, expected) in cases {
        assert_eq!(parse(phrase, &now()), Err(expected), "{phrase}");
    }
}

#[test]
fn every_example_offered_is_readable() {
    for example in EXAMPLES {
        assert!(parse(example, &now()).is_ok(), "{example}");
    }
}

proptest! {
    #[test]
    fn no_text_makes_it_panic_and_no_answer_lies_in_the_past(text in "\\PC{0,60}") {
        if let Ok(moment) = parse(&text, &now()) {
            prop_assert!(moment >= now().timestamp());
        }
    }

    #[test]
    fn no_mix_of_its_own_words_makes_it_panic(words in prop::collection::vec(
        prop::sample::select(vec![
            "in", "next", "end", "of", "the", "week", "month", "friday", "march", "12", "12th",
            "99999999999999999999", "-1", "0", "at", "pm", "25:61", "2027-13-99", "a", "days",
            "t", "2027-01-01t", "\u{130}", "tomorrow", "half", "an", "hour", "workdays", "1.1.", "//",
        ]), 0..6)) {
        if let Ok(moment) = parse(&words.join(" "), &now()) {
            prop_assert!(moment >= now().timestamp());
        }
    }
}
