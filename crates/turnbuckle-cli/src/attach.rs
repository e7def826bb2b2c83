//! Images and files for a message, from a path or an address.

use crate::error::CliError;
use std::path::Path;
use turnbuckle::core::content::{
    ContentError, ContentLimits, ContentPart, File, FileType, Image, ImageType, MediaType, Source,
    WebUrl,
};

/// What `what` names: a file here, or something on the web by its `https` address.
///
/// # Errors
/// When the file cannot be read or is of no kind that models take; when an address does not end in a known extension.
pub fn read(what: &str) -> Result<ContentPart, CliError> {
    if what.contains("://") {
        return from_web(what).map_err(|e| CliError::Usage(e.to_string()));
    }
    let path = Path::new(what);
    let cannot = |e: std::io::Error| CliError::Failed(format!("`{what}` cannot be read: {e}"));
    let size = std::fs::metadata(path).map_err(cannot)?.len();
    let limit = ContentLimits::default().max_file_bytes;
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    if size > limit {
        let error = ContentError::TooLarge { what: name, bytes: size, limit };
        return Err(CliError::Usage(error.to_string()));
    }
    let bytes = std::fs::read(path).map_err(cannot)?;
    ContentPart::from_bytes(name, &bytes).map_err(|e| CliError::Usage(e.to_string()))
}

fn from_web(address: &str) -> Result<ContentPart, ContentError> {
    let url = WebUrl::parse(address)?;
    let path = url.as_str().split(['?', '#']).next().unwrap_or_default();
    let name = path.rsplit('/').next().unwrap_or_default().to_owned();
    let extension = name.rsplit_once('.').map(|(_, e)| e.to_ascii_lowercase());
    let mime = match extension.as_deref() {
        Some("png") => MediaType::Image(ImageType::Png),
        Some("jpg" | "jpeg") => MediaType::Image(ImageType::Jpeg),
        Some("gif") => MediaType::Image(ImageType::Gif),
        Some("webp") => MediaType::Image(ImageType::Webp),
        Some("pdf") => MediaType::File(FileType::Pdf),
        _ => return Err(ContentError::Unknown { name: address.to_owned() }),
    };
    let source = Source::Url(url);
    Ok(match mime {
        MediaType::Image(mime) => {
            ContentPart::Image(Image { mime, source, name: Some(name), detail: None, size: None })
        }
        MediaType::File(mime) => ContentPart::File(File { mime, source, name }),
    })
}

/// One line for a person.
pub fn line(part: &ContentPart) -> String {
    match part {
        ContentPart::Image(image) => image.to_string(),
        ContentPart::File(file) => file.to_string(),
        ContentPart::Text { text } => text.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_addresses_become_parts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes.md");
        std::fs::write(&path, "# Notes").unwrap();
        assert_eq!(line(&read(path.to_str().unwrap()).unwrap()), "file notes.md, text/markdown");
        assert_eq!(
            line(&read("https://example.com/a/plan.PNG?x=1").unwrap()),
            "image plan.PNG, image/png, at https://example.com/a/plan.PNG?x=1"
        );
    }

    #[test]
    fn what_cannot_be_attached_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let zip = folder.path().join("a.zip");
        std::fs::write(&zip, b"PK\x03\x04\0\0").unwrap();
        let large = folder.path().join("large.txt");
        std::fs::File::create(&large).unwrap().set_len(1 << 40).unwrap();
        for (what, said) in [
            (zip.to_str().unwrap(), "neither a picture nor a PDF nor text"),
            (large.to_str().unwrap(), "make it smaller"),
            ("/no/such/file", "cannot be read"),
            ("http://example.com/a.png", "must begin with https://"),
            ("https://example.com/page", "neither a picture nor a PDF nor text"),
        ] {
            let error = read(what).unwrap_err().line();
            assert!(error.contains(said), "{what}: {error}");
        }
    }
}
