//! Where everything is printed: permanent text, and below it at most one line of status that is wiped before more text.

use crate::config::file::ColorChoice;
use std::io::{self, IsTerminal, Write};

/// Columns when nobody says how many there are.
const COLUMNS: usize = 80;

/// How a piece of text looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// As it is.
    Plain,
    /// Less important.
    Dim,
    /// More important.
    Bold,
    /// Must be seen.
    Loud,
    /// Went well.
    Good,
    /// Did not.
    Bad,
}

impl Style {
    const fn code(self) -> &'static str {
        match self {
            Style::Plain => "",
            Style::Dim => "\x1b[2m",
            Style::Bold => "\x1b[1m",
            Style::Loud => "\x1b[1;33m",
            Style::Good => "\x1b[32m",
            Style::Bad => "\x1b[31m",
        }
    }
}

/// The terminal, or the file or pipe in its place.
pub struct Screen {
    out: Box<dyn Write + Send>,
    ansi: bool,
    live: bool,
    columns: usize,
    /// The line of status that is shown.
    status: Option<String>,
    /// Whether the last character printed was a line end.
    fresh: bool,
}

impl Screen {
    /// Standard output.
    pub fn stdout(color: ColorChoice) -> Self {
        Self::on(Box::new(io::stdout()), io::stdout().is_terminal(), color)
    }

    /// Standard error.
    pub fn stderr(color: ColorChoice) -> Self {
        Self::on(Box::new(io::stderr()), io::stderr().is_terminal(), color)
    }

    /// Anything; `terminal` says whether a person watches it.
    pub fn on(out: Box<dyn Write + Send>, terminal: bool, color: ColorChoice) -> Self {
        let able = terminal && std::env::var("TERM").is_ok_and(|t| t != "dumb");
        let ansi = match color {
            ColorChoice::Auto => able,
            ColorChoice::Always => true,
            ColorChoice::Never => false,
        };
        let columns = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok());
        let columns = columns.filter(|c| *c > 10).unwrap_or(COLUMNS);
        Self { out, ansi, live: able, columns, status: None, fresh: true }
    }

    /// Whether text is styled.
    pub fn ansi(&self) -> bool {
        self.ansi
    }

    /// Prints text that may be in the middle of a line. It must be safe already: see [`safe`].
    ///
    /// # Errors
    /// When the reader is gone.
    pub fn raw(&mut self, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.wipe()?;
        self.out.write_all(text.as_bytes())?;
        self.out.flush()?;
        self.fresh = text.ends_with('\n');
        Ok(())
    }

    /// Prints a line of its own.
    ///
    /// # Errors
    /// When the reader is gone.
    pub fn line(&mut self, style: Style, text: &str) -> io::Result<()> {
        self.end_line()?;
        let text = safe(text);
        let line = if self.ansi && style != Style::Plain {
            format!("{}{text}\x1b[0m\n", style.code())
        } else {
            format!("{text}\n")
        };
        self.raw(&line)
    }

    /// An empty line, unless the text before ended with one.
    ///
    /// # Errors
    /// When the reader is gone.
    pub fn gap(&mut self) -> io::Result<()> {
        self.end_line()?;
        self.raw("\n")
    }

    /// Ends the line when it has begun.
    ///
    /// # Errors
    /// When the reader is gone.
    pub fn end_line(&mut self) -> io::Result<()> {
        if self.fresh { Ok(()) } else { self.raw("\n") }
    }

    /// Shows what is going on, until something else is printed. Only where a person watches.
    ///
    /// # Errors
    /// When the reader is gone.
    pub fn status(&mut self, text: &str) -> io::Result<()> {
        if !self.live || !self.fresh {
            return Ok(());
        }
        let text = super::words::one_line(&safe(text), self.columns - 2);
        if self.status.as_ref() == Some(&text) {
            return Ok(());
        }
        self.wipe()?;
        write!(self.out, "\x1b[2m{text}\x1b[0m")?;
        self.out.flush()?;
        self.status = Some(text);
        Ok(())
    }

    /// Whether a person watches, so that lines of status are seen.
    pub fn is_live(&self) -> bool {
        self.live
    }

    /// Wipes the line of status.
    ///
    /// # Errors
    /// When the reader is gone.
    pub fn wipe(&mut self) -> io::Result<()> {
        if self.status.take().is_some() {
            self.out.write_all(b"\r\x1b[K")?;
        }
        Ok(())
    }
}

/// Text without control characters: what a model or a tool says must not command the terminal.
pub fn safe(text: &str) -> String {
    let harmless = |c: char| !c.is_control() || matches!(c, '\n' | '\t');
    if text.chars().all(harmless) {
        return text.to_owned();
    }
    text.chars()
        .filter_map(|c| match c {
            c if harmless(c) => Some(c),
            '\r' => None,
            _ => Some('\u{fffd}'),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    pub struct Sink(pub Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_begin_where_lines_begin() {
        let sink = Sink::default();
        let mut screen = Screen::on(Box::new(sink.clone()), false, ColorChoice::Auto);
        screen.raw("half").unwrap();
        screen.line(Style::Bad, "whole").unwrap();
        screen.status("unseen without a terminal").unwrap();
        screen.gap().unwrap();
        assert_eq!(String::from_utf8(sink.0.lock().unwrap().clone()).unwrap(), "half\nwhole\n\n");
    }

    #[test]
    fn nothing_that_is_said_commands_the_terminal() {
        assert_eq!(safe("a\x1b[2Jb\r\n\tc\u{9b}"), "a\u{fffd}[2Jb\n\tc\u{fffd}");
    }
}
