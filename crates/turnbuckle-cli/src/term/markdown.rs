//! Markdown to the terminal as it streams in: headings, bold, code, lists, links. Without styles it is left as it is, since plain
//! markdown reads well.

use super::screen::safe;

const BOLD: (&str, &str) = ("\x1b[1m", "\x1b[22m");
const CODE: (&str, &str) = ("\x1b[36m", "\x1b[39m");
const HEADING: (&str, &str) = ("\x1b[1;4m", "\x1b[22;24m");
const LINK: (&str, &str) = ("\x1b[4m", "\x1b[24m");
/// The longest link that is waited for, in bytes.
const LONGEST_LINK: usize = 600;
const DIM: (&str, &str) = ("\x1b[2m", "\x1b[22m");

/// Where the renderer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// At the beginning of a line: what kind of line it is is not known yet.
    LineStart,
    /// Within a line of text.
    Text,
    /// Within a heading.
    Heading,
    /// Within a line of a code block.
    Block,
}

/// The renderer of one text. Feed it pieces cut anywhere; what it cannot place yet it keeps until it can.
#[derive(Debug)]
pub struct Markdown {
    ansi: bool,
    place: Place,
    /// Whether the line lies between two fences.
    fenced: bool,
    bold: bool,
    code: bool,
    held: String,
}

impl Markdown {
    /// A renderer that styles, or one that leaves the text as it is.
    pub fn new(ansi: bool) -> Self {
        Self {
            ansi,
            place: Place::LineStart,
            fenced: false,
            bold: false,
            code: false,
            held: String::new(),
        }
    }

    /// What to print for the next piece.
    pub fn push(&mut self, text: &str) -> String {
        let text = safe(text);
        if !self.ansi {
            return text;
        }
        let mut out = String::with_capacity(text.len() + 16);
        for c in text.chars() {
            self.take(c, &mut out);
        }
        out
    }

    /// What to print at the end.
    pub fn finish(&mut self) -> String {
        let mut out = String::new();
        if self.ansi {
            self.release(&mut out);
            self.end_line(&mut out);
        }
        *self = Self::new(self.ansi);
        out
    }

    fn take(&mut self, c: char, out: &mut String) {
        match self.place {
            Place::LineStart => {
                self.held.push(c);
                self.classify(out);
            }
            Place::Block => {
                if c == '\n' {
                    self.end_line(out);
                }
                out.push(c);
            }
            Place::Text | Place::Heading => self.inline(c, out),
        }
    }

    /// Decides what kind of line begins, once enough of it is there.
    fn classify(&mut self, out: &mut String) {
        let held = self.held.clone();
        let body = held.trim_start_matches(' ');
        let indent = held.len() - body.len();
        if body.starts_with("```") {
            // The rest of the line names the language.
            if body.ends_with('\n') {
                self.fenced = !self.fenced;
                self.held.clear();
                out.push_str(DIM.0);
                out.push_str(held.trim_end_matches('\n'));
                out.push_str(DIM.1);
                out.push('\n');
            }
            return;
        }
        if self.fenced {
            if "```".starts_with(body) {
                return;
            }
            self.begin(Place::Block, out);
            return;
        }
        if body.is_empty() {
            return;
        }
        let marks = body.bytes().take_while(|b| *b == b'#').count();
        if (1..=6).contains(&marks) {
            match body.get(marks..).and_then(|rest| rest.chars().next()) {
                None => return,
                Some(' ') => {
                    self.held.clear();
                    self.place = Place::Heading;
                    out.push_str(HEADING.0);
                    return;
                }
                Some(_) => {}
            }
        } else if matches!(body, "-" | "*" | "+" | "`" | "``") {
            return;
        } else if matches!(body, "- " | "* " | "+ ") {
            self.held.clear();
            self.place = Place::Text;
            out.push_str(&" ".repeat(indent));
            out.push_str("• ");
            return;
        }
        self.begin(Place::Text, out);
    }

    /// Goes on with what was held as the beginning of an ordinary line.
    fn begin(&mut self, place: Place, out: &mut String) {
        self.place = place;
        if place == Place::Block {
            out.push_str(CODE.0);
        }
        for c in std::mem::take(&mut self.held).chars() {
            self.take(c, out);
        }
    }

    fn inline(&mut self, c: char, out: &mut String) {
        if self.held.starts_with('[') {
            return self.link(c, out);
        }
        if c == '[' && !self.code {
            self.release(out);
            self.held.push(c);
            return;
        }
        if c == '*' && !self.code {
            if self.held == "*" {
                self.held.clear();
                self.bold = !self.bold;
                out.push_str(if self.bold { BOLD.0 } else { BOLD.1 });
            } else {
                self.held.push(c);
            }
            return;
        }
        self.release(out);
        match c {
            '`' => {
                self.code = !self.code;
                out.push_str(if self.code { CODE.0 } else { CODE.1 });
            }
            '\n' => {
                self.end_line(out);
                out.push('\n');
            }
            c => out.push(c),
        }
    }

    /// Within what may become `[label](target)`.
    fn link(&mut self, c: char, out: &mut String) {
        let after_label = self.held.ends_with(']') && !self.held.contains("](");
        if c == '\n' || (after_label && c != '(') || self.held.len() > LONGEST_LINK {
            self.release(out);
            return self.inline(c, out);
        }
        self.held.push(c);
        if c != ')' {
            return;
        }
        let held = std::mem::take(&mut self.held);
        let inner = held.strip_prefix('[').and_then(|h| h.strip_suffix(')'));
        match inner.and_then(|inner| inner.split_once("](")) {
            Some((label, target)) => {
                let short =
                    target.split_once("://").filter(|(scheme, _)| !scheme.starts_with("http"));
                let shown = short.map_or(target, |(_, rest)| rest);
                out.push_str(&format!("{}{label}{} {}({shown}){}", LINK.0, LINK.1, DIM.0, DIM.1));
            }
            // A closing parenthesis within the label.
            None => self.held = held,
        }
    }

    /// Gives out what is held as it is.
    fn release(&mut self, out: &mut String) {
        out.push_str(&std::mem::take(&mut self.held));
    }

    /// No style outlives its line, so that a forgotten mark does no harm.
    fn end_line(&mut self, out: &mut String) {
        match self.place {
            Place::Heading => out.push_str(HEADING.1),
            Place::Block => out.push_str(CODE.1),
            Place::LineStart | Place::Text => {}
        }
        if std::mem::take(&mut self.bold) {
            out.push_str(BOLD.1);
        }
        if std::mem::take(&mut self.code) {
            out.push_str(CODE.1);
        }
        self.place = Place::LineStart;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Styles as readable marks.
    fn render(text: &str, piece: usize) -> String {
        let mut markdown = Markdown::new(true);
        let mut out = String::new();
        let characters: Vec<char> = text.chars().collect();
        for piece in characters.chunks(piece) {
            out.push_str(&markdown.push(&piece.iter().collect::<String>()));
        }
        out.push_str(&markdown.finish());
        for (name, (on, off)) in [("h", HEADING), ("b", BOLD), ("c", CODE), ("u", LINK)] {
            out = out.replace(on, &format!("<{name}>")).replace(off, &format!("</{name}>"));
        }
        out.replace(DIM.0, "<d>").replace(DIM.1, "</b>")
    }

    #[test]
    fn what_it_makes_of_marks_does_not_depend_on_the_cut() {
        let text = "# Title\nSome **bold** and `code *x*`.\n- one\n  * two\n\n```rust\nlet a = **1;\n```\n1 * 2\n#tag **open\nend*";
        let want = "<h>Title</h>\nSome <b>bold</b> and <c>code *x*</c>.\n• one\n  • two\n\n<d>```rust</b>\n<c>let a = **1;</c>\n<d>```</b>\n1 * 2\n#tag <b>open</b>\nend*";
        for piece in [1, 2, 3, 7, 1000] {
            assert_eq!(render(text, piece), want, "in pieces of {piece}");
        }
    }

    #[test]
    fn links_show_their_label_first() {
        let text = "See [Order (late)](desk://order/7) or [x](https://e.example/a).\n- [ ] todo [open\nrest";
        let want = "See <u>Order (late)</u> <d>(order/7)</b> or <u>x</u> <d>(https://e.example/a)</b>.\n• [ ] todo [open\nrest";
        for piece in [1, 4, 1000] {
            assert_eq!(render(text, piece), want, "in pieces of {piece}");
        }
    }

    #[test]
    fn without_styles_the_text_stays_as_it_is() {
        let mut markdown = Markdown::new(false);
        assert_eq!(markdown.push("**a**"), "**a**");
        assert_eq!(markdown.push("\x1b]0;x"), "\u{fffd}]0;x");
        assert_eq!(markdown.finish(), "");
    }
}
