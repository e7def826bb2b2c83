//! What images and files cost in tokens, by the vendors' published rules.
//!
//! An image's size is read from the first bytes of its file. Where a rule cannot be applied (an image behind an address, a
//! PDF whose pages cannot be counted without reading it) the highest plausible cost is taken, so that a request that is said
//! to fit does.

use crate::catalogue::TokenizerFamily;
use turnbuckle_core::content::{Base64, Detail, File, Image, PixelSize, Source};

/// How a family of models counts images and pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MediaRule {
    /// OpenAI's tiles: an image is scaled to fit 2048 by 2048, then to a short side of 768, and cut into tiles of 512.
    Tiles {
        /// Tokens of the whole, and of an image looked at with low detail.
        base: u32,
        /// Tokens of each tile.
        tile: u32,
    },
    /// OpenAI's patches of 32 by 32: an image with more than `most` is scaled down to them.
    Patches {
        /// Patches at the most.
        most: u32,
        /// Hundredths of a token for each.
        percent: u32,
    },
    /// Anthropic's: width times height over 750, after the long edge was scaled down to `edge` and the whole to `most` tokens.
    Area {
        /// The longest edge in pixels.
        edge: u32,
        /// Tokens at the most.
        most: u32,
    },
    /// Google's until Gemini 2: 258 tokens for a small image, and for each crop of a larger one.
    Crops,
    /// The same for every image: Google's since Gemini 3, and a guess where nothing is published.
    Flat {
        /// Tokens of an image.
        image: u32,
        /// Tokens of a page, its text included.
        page: u32,
    },
}

/// Tokens of a page of a PDF where a vendor adds the page's text to its picture: dense text takes about so many.
const PAGE_TEXT: u32 = 2_000;
/// Bytes of a page, where pages cannot be counted. Pages of text are smaller, scanned ones larger; the vendors' picture of a
/// page costs the same.
const PAGE_BYTES: u64 = 20_000;
/// Pages of a file that is not here.
const UNSEEN_PAGES: u32 = 30;
/// Pages beyond which vendors refuse a file.
const MOST_PAGES: u32 = 1_000;
/// An image that is not here, or whose size cannot be read, is taken to be of this size.
const UNSEEN: PixelSize = PixelSize { width: 2048, height: 2048 };
/// Bytes within which the size of nearly every image stands.
const HEAD: usize = 64 * 1024;

impl MediaRule {
    /// The rule of a model by its name.
    pub fn of(model: &str, family: TokenizerFamily) -> Self {
        let name = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase();
        match family {
            TokenizerFamily::O200k | TokenizerFamily::Cl100k => openai(&name),
            TokenizerFamily::Claude => claude(&name),
            TokenizerFamily::Gemini
                if name.starts_with("gemini-1") || name.starts_with("gemini-2") =>
            {
                MediaRule::Crops
            }
            TokenizerFamily::Gemini => MediaRule::Flat { image: 1_120, page: 560 },
            TokenizerFamily::Unknown => MediaRule::Flat { image: 2_000, page: 3_000 },
        }
    }

    /// The tokens of an image.
    pub fn image(self, image: &Image) -> u32 {
        let size = image.size.or_else(|| pixel_size(&image.source)).unwrap_or(UNSEEN);
        self.pixels(size, image.detail.unwrap_or(Detail::Auto))
    }

    /// The tokens of a PDF: its pages, each with its picture and its text.
    pub fn pdf(self, file: &File) -> u32 {
        let pages = match &file.source {
            Source::Data(data) => pages(data),
            Source::Url(_) | Source::Blob(_) => UNSEEN_PAGES,
        };
        pages.saturating_mul(self.page())
    }

    fn page(self) -> u32 {
        const SCANNED: PixelSize = PixelSize { width: 1_275, height: 1_650 };
        match self {
            MediaRule::Flat { page, .. } => page,
            // The text of a page is not charged.
            MediaRule::Crops => 258,
            MediaRule::Tiles { .. } | MediaRule::Patches { .. } | MediaRule::Area { .. } => {
                PAGE_TEXT + self.pixels(SCANNED, Detail::High)
            }
        }
    }

    fn pixels(self, size: PixelSize, detail: Detail) -> u32 {
        let (width, height) = (f64::from(size.width.max(1)), f64::from(size.height.max(1)));
        match self {
            MediaRule::Tiles { base, .. } if detail == Detail::Low => base,
            MediaRule::Tiles { base, tile } => {
                let (width, height) = shrunk(width, height, 2048.0 / width.max(height));
                let (width, height) = shrunk(width, height, 768.0 / width.min(height));
                base.saturating_add(tile.saturating_mul(grid(width, height, 512.0)))
            }
            MediaRule::Patches { most, percent } => {
                patches(width, height, most).saturating_mul(percent).div_ceil(100)
            }
            MediaRule::Area { edge, most } => {
                let (width, height) = shrunk(width, height, f64::from(edge) / width.max(height));
                ((width * height / 750.0).ceil() as u32).min(most)
            }
            MediaRule::Crops => {
                if width <= 384.0 && height <= 384.0 {
                    return 258;
                }
                let unit = (width.min(height) / 1.5).floor().clamp(256.0, 768.0);
                258_u32.saturating_mul(grid(width, height, unit))
            }
            MediaRule::Flat { image, .. } => image,
        }
    }
}

fn openai(name: &str) -> MediaRule {
    const RULES: [(&str, MediaRule); 12] = [
        ("gpt-4o-mini", MediaRule::Tiles { base: 2_833, tile: 5_667 }),
        ("gpt-4.1-mini", MediaRule::Patches { most: 1_536, percent: 162 }),
        ("gpt-4.1-nano", MediaRule::Patches { most: 1_536, percent: 246 }),
        ("gpt-4", MediaRule::Tiles { base: 85, tile: 170 }),
        ("o1", MediaRule::Tiles { base: 75, tile: 150 }),
        ("o3", MediaRule::Tiles { base: 75, tile: 150 }),
        ("o4-mini", MediaRule::Patches { most: 1_536, percent: 172 }),
        ("gpt-5-mini", MediaRule::Patches { most: 1_536, percent: 162 }),
        ("gpt-5-nano", MediaRule::Patches { most: 1_536, percent: 246 }),
        ("gpt-5.2", MediaRule::Patches { most: 1_536, percent: 120 }),
        ("gpt-5.1", MediaRule::Tiles { base: 70, tile: 140 }),
        ("gpt-5-", MediaRule::Tiles { base: 70, tile: 140 }),
    ];
    if name == "gpt-5" {
        return MediaRule::Tiles { base: 70, tile: 140 };
    }
    let named = RULES.iter().find(|(prefix, _)| name.starts_with(prefix));
    // Newer models see up to 2,500 patches unless they are asked to look closer.
    named.map_or(MediaRule::Patches { most: 2_500, percent: 120 }, |(_, rule)| *rule)
}

fn claude(name: &str) -> MediaRule {
    const UNTIL_4_6: [&str; 7] =
        ["claude-2", "claude-3", "-4-0", "-4-1", "-4-5", "-4-6", "-4-2025"];
    let dashed = name.replace('.', "-");
    if UNTIL_4_6.iter().any(|part| dashed.contains(part)) || dashed.ends_with("-4") {
        MediaRule::Area { edge: 1_568, most: 1_600 }
    } else {
        MediaRule::Area { edge: 2_576, most: 4_784 }
    }
}

/// Both sides by a factor, unless that would enlarge them.
fn shrunk(width: f64, height: f64, factor: f64) -> (f64, f64) {
    let factor = factor.min(1.0);
    ((width * factor).round().max(1.0), (height * factor).round().max(1.0))
}

fn grid(width: f64, height: f64, unit: f64) -> u32 {
    ((width / unit).ceil() * (height / unit).ceil()) as u32
}

/// Patches of 32 pixels; an image with more than `most` of them is scaled down until whole patches fit.
fn patches(width: f64, height: f64, most: u32) -> u32 {
    let all = grid(width, height, 32.0);
    if all <= most {
        return all;
    }
    let factor = (f64::from(most) * 32.0 * 32.0 / (width * height)).sqrt();
    let (across, down) = (width * factor / 32.0, height * factor / 32.0);
    let whole = |count: f64| count.floor().max(1.0) / count;
    let fitting = whole(across).min(whole(down));
    grid(width * factor * fitting, height * factor * fitting, 32.0).min(most)
}

/// The size of an image whose bytes are here.
pub fn pixel_size(source: &Source) -> Option<PixelSize> {
    let Source::Data(data) = source else { return None };
    let read = |bytes: Vec<u8>| imagesize::blob_size(&bytes).ok();
    // Long metadata may stand before the size.
    let size = read(data.head(HEAD)).or_else(|| read(data.decode()))?;
    Some(PixelSize {
        width: u32::try_from(size.width).ok()?,
        height: u32::try_from(size.height).ok()?,
    })
}

/// The pages of a PDF: those that stand in the open, else as many as its size allows for.
fn pages(data: &Base64) -> u32 {
    let bytes = data.decode();
    let mut leaves = 0_u32;
    let mut stated = 0_u32;
    for at in memchr::memmem::find_iter(&bytes, b"/Type") {
        let rest = bytes.get(at + 5..).unwrap_or_default().trim_ascii_start();
        if let Some(after) = rest.strip_prefix(b"/Page") {
            match after.first() {
                Some(b's') => stated = stated.max(count_beside(&bytes, at)),
                _ => leaves = leaves.saturating_add(1),
            }
        }
    }
    let guess = u32::try_from(data.bytes().div_ceil(PAGE_BYTES)).unwrap_or(MOST_PAGES);
    let known = leaves.max(stated);
    let pages = if known > 0 { known } else { guess };
    pages.clamp(1, MOST_PAGES)
}

/// The `/Count` of the dictionary around a place.
fn count_beside(bytes: &[u8], at: usize) -> u32 {
    const AROUND: usize = 512;
    let near =
        bytes.get(at.saturating_sub(AROUND)..bytes.len().min(at + AROUND)).unwrap_or_default();
    let Some(found) = memchr::memmem::find(near, b"/Count") else { return 0 };
    let digits = near.get(found + 6..).unwrap_or_default().trim_ascii_start();
    let end = digits.iter().position(|b| !b.is_ascii_digit()).unwrap_or(digits.len());
    let number = digits.get(..end).and_then(|d| std::str::from_utf8(d).ok());
    number.and_then(|n| n.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use turnbuckle_core::content::{FileType, ImageType, WebUrl};

    fn tokens(
        model: &str,
        family: TokenizerFamily,
        width: u32,
        height: u32,
        detail: Detail,
    ) -> u32 {
        MediaRule::of(model, family).pixels(PixelSize { width, height }, detail)
    }

    #[test]
    fn images_cost_what_the_vendors_examples_say() {
        use Detail::{Auto, High, Low};
        use TokenizerFamily::{Claude, Gemini, O200k};
        let cases = [
            ("gpt-4o", O200k, 1024, 1024, High, 765),
            ("gpt-4o", O200k, 2048, 4096, High, 1105),
            ("gpt-4o", O200k, 4096, 8192, Low, 85),
            ("gpt-5", O200k, 1024, 1024, Auto, 70 + 4 * 140),
            ("openai/o3", O200k, 512, 512, Auto, 75 + 150),
            // 1024 patches, below the cap; 57 by 75 patches are scaled to 33 by 44.
            ("gpt-4.1-mini", O200k, 1024, 1024, Auto, 1659),
            ("gpt-4.1-mini", O200k, 1800, 2400, Auto, 2353),
            ("claude-sonnet-4-5", Claude, 1000, 1000, Auto, 1334),
            ("claude-sonnet-4-5", Claude, 200, 200, Auto, 54),
            ("anthropic/claude-opus-4.6", Claude, 4000, 3000, Auto, 1600),
            ("claude-opus-4-7", Claude, 2000, 1500, Auto, 4000),
            ("claude-opus-5", Claude, 6000, 6000, Auto, 4784),
            ("gemini-2.5-pro", Gemini, 384, 384, Auto, 258),
            ("gemini-2.5-pro", Gemini, 960, 540, Auto, 6 * 258),
            ("gemini-3.8-flash", Gemini, 960, 540, Auto, 1120),
        ];
        for (model, family, width, height, detail, expected) in cases {
            let counted = tokens(model, family, width, height, detail);
            assert_eq!(counted, expected, "{model} {width}x{height}");
        }
    }

    #[test]
    fn odd_sizes_are_harmless() {
        for model in ["gpt-4o", "gpt-4.1-mini", "gpt-6-sol"] {
            for (width, height) in [(0, 0), (1, u32::MAX), (u32::MAX, u32::MAX), (33, 1)] {
                assert!(tokens(model, TokenizerFamily::O200k, width, height, Detail::Auto) > 0);
            }
        }
    }

    fn png(width: u32, height: u32) -> Source {
        let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        bytes.extend(width.to_be_bytes());
        bytes.extend(height.to_be_bytes());
        bytes.extend([8, 6, 0, 0, 0]);
        Source::Data(Base64::encode(&bytes))
    }

    #[test]
    fn the_size_is_read_from_the_head_of_the_file() {
        assert_eq!(pixel_size(&png(640, 480)), Some(PixelSize { width: 640, height: 480 }));
        assert_eq!(pixel_size(&Source::Data(Base64::encode(b"no image"))), None);
        let rule = MediaRule::of("claude-sonnet-4-5", TokenizerFamily::Claude);
        let image =
            |source| Image { mime: ImageType::Png, source, name: None, detail: None, size: None };
        assert_eq!(rule.image(&image(png(750, 100))), 100);
        // Behind an address it may be as large as anything.
        let url = WebUrl::parse("https://example.com/a.png").unwrap();
        assert_eq!(rule.image(&image(Source::Url(url))), 1600);
    }

    #[test]
    fn pages_are_counted_where_they_stand_in_the_open() {
        let pages = |text: &str| pages(&Base64::encode(text.as_bytes()));
        let open = "%PDF-1.4\n<< /Type /Pages /Kids [] /Count 3 >>\n<< /Type /Page >>\n<</Type/Page/Parent 1 0 R>>";
        assert_eq!(pages(open), 3);
        assert_eq!(pages("%PDF-1.4\n<</Count 12/Type/Pages>>"), 12);
        assert_eq!(pages("%PDF-1.7\n <</Type /ObjStm>> stream"), 1);
        assert_eq!(pages(&format!("%PDF-1.7\n{}", " ".repeat(100_000))), 6);
        assert_eq!(pages("%PDF-1.4\n<</Type/Pages/Count 99999999999>>"), 1);
        assert_eq!(pages("%PDF-1.4\n<</Type/Pages/Count 4000000>>"), MOST_PAGES);
    }

    #[test]
    fn a_page_has_its_picture_and_its_text() {
        let file = File {
            mime: FileType::Pdf,
            source: Source::Data(Base64::encode(b"%PDF-1.4\n<</Type/Pages/Count 2>>")),
            name: "a.pdf".into(),
        };
        let cost = |model, family| MediaRule::of(model, family).pdf(&file);
        assert_eq!(cost("gemini-2.5-pro", TokenizerFamily::Gemini), 516);
        assert_eq!(cost("gemini-3.8-flash", TokenizerFamily::Gemini), 1120);
        assert_eq!(cost("claude-sonnet-4-5", TokenizerFamily::Claude), 2 * (2000 + 1600));
        assert_eq!(cost("gpt-4o", TokenizerFamily::O200k), 2 * (2000 + 85 + 4 * 170));
    }
}
