//! Lines of input: with editing and history on a terminal, one after the other from a pipe. While a turn runs, lines are
//! heard as well.

use crate::error::CliError;
use crate::signals::Interrupts;
use rustyline::error::ReadlineError;
use rustyline::{Config, DefaultEditor};
use std::collections::VecDeque;
use std::io::{BufRead, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use tokio::sync::mpsc as wakeful;

/// What somebody did when asked for a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Given {
    /// Typed one.
    Line(String),
    /// Pressed Ctrl-C.
    Interrupt,
    /// Ended the input.
    End,
}

/// What the reader says.
enum Heard {
    Given(Given),
    /// It listens no longer.
    Quiet,
}

/// What the reader on a terminal is asked for.
enum Wish {
    /// A line, with this in front of it.
    Prompt(String, Asked),
    /// Whatever is typed, until the bell.
    Listen,
}

/// What a line is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    /// Whatever the person likes to say. Of several lines that come at once, each is its own.
    Anything,
    /// An answer to a question. What came before the question, with a line for something else, is none.
    Answer,
}

/// The input. Reading happens in a thread of its own, since neither terminals nor pipes can be waited for otherwise.
pub struct Input {
    heard: wakeful::UnboundedReceiver<Heard>,
    /// The reader on a terminal; a pipe is read ahead and needs no asking.
    terminal: Option<Terminal>,
    /// Lines that came while a turn ran and are for after it.
    early: VecDeque<String>,
    ended: bool,
}

struct Terminal {
    wishes: mpsc::Sender<Wish>,
    bell: Option<bell::Ringer>,
    busy: Busy,
}

/// What the reader on a terminal does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Busy {
    No,
    Prompting,
    Listening,
}

impl Input {
    /// Standard input; `history` keeps what was typed on a terminal.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn open(history: PathBuf) -> Result<Self, CliError> {
        let (give, heard) = wakeful::unbounded_channel();
        let reader = std::thread::Builder::new().name("input".to_owned());
        let (terminal, started) = if std::io::stdin().is_terminal() {
            let (wishes, wanted) = mpsc::channel();
            // Without a bell nothing is heard while a turn runs; that is no reason not to talk at all.
            let (ringer, listener) = bell::new().map_or((None, None), |(r, l)| (Some(r), Some(l)));
            let started = reader.spawn(move || read_terminal(&history, listener, &wanted, &give));
            (Some(Terminal { wishes, bell: ringer, busy: Busy::No }), started)
        } else {
            (None, reader.spawn(move || read_pipe(&give)))
        };
        started.map_err(CliError::io("the reader of the input cannot be started"))?;
        Ok(Self { heard, terminal, early: VecDeque::new(), ended: false })
    }

    /// Whether a person types at a terminal.
    pub fn is_terminal(&self) -> bool {
        self.terminal.is_some()
    }

    /// The next line, one that came early first. An interrupt that comes as a signal is told as well.
    pub async fn next(&mut self, prompt: &str, interrupts: &mut Interrupts) -> Given {
        match self.early.pop_front() {
            Some(line) => Given::Line(line),
            None => self.ask(prompt, Asked::Anything, interrupts).await,
        }
    }

    /// The next line as an answer to a question. What a person typed before they saw the question is none; a script writes its
    /// answers ahead.
    pub async fn answer(&mut self, prompt: &str, interrupts: &mut Interrupts) -> Given {
        match self.is_terminal() {
            true => self.ask(prompt, Asked::Answer, interrupts).await,
            false => self.next(prompt, interrupts).await,
        }
    }

    async fn ask(&mut self, prompt: &str, asked: Asked, interrupts: &mut Interrupts) -> Given {
        if self.ended {
            return Given::End;
        }
        if let Some(terminal) = &mut self.terminal
            && terminal.busy == Busy::No
        {
            terminal.busy = Busy::Prompting;
            if terminal.wishes.send(Wish::Prompt(prompt.to_owned(), asked)).is_err() {
                return Given::End;
            }
        }
        tokio::select! {
            given = self.given() => given,
            () = interrupts.next() => Given::Interrupt,
        }
    }

    async fn given(&mut self) -> Given {
        loop {
            match self.heard.recv().await {
                Some(Heard::Given(given)) => {
                    self.settled(&given);
                    return given;
                }
                Some(Heard::Quiet) => {}
                None => return Given::End,
            }
        }
    }

    fn settled(&mut self, given: &Given) {
        self.ended = *given == Given::End;
        if let Some(terminal) = &mut self.terminal
            && terminal.busy == Busy::Prompting
        {
            terminal.busy = Busy::No;
        }
    }

    /// A turn runs: what is typed meanwhile comes from [`typed`](Input::typed).
    pub fn listen(&mut self) {
        if let Some(terminal) = &mut self.terminal
            && terminal.busy == Busy::No
            && terminal.bell.is_some()
            && terminal.wishes.send(Wish::Listen).is_ok()
        {
            terminal.busy = Busy::Listening;
        }
    }

    /// The next line that is typed while a turn runs. Waits for ever when there will be none.
    pub async fn typed(&mut self) -> String {
        while !self.ended {
            match self.given().await {
                Given::Line(line) => return line,
                Given::Interrupt => {}
                Given::End => self.ended = true,
            }
        }
        std::future::pending().await
    }

    /// The turn is over. Gives the lines that were typed at the last moment.
    pub async fn hush(&mut self) -> Vec<String> {
        let mut late = Vec::new();
        let Some(terminal) = &mut self.terminal else { return late };
        if terminal.busy != Busy::Listening {
            return late;
        }
        terminal.busy = Busy::No;
        if let Some(bell) = &terminal.bell
            && bell.ring().is_err()
        {
            return late;
        }
        while let Some(heard) = self.heard.recv().await {
            match heard {
                Heard::Given(Given::Line(line)) => late.push(line),
                Heard::Given(_) => {}
                Heard::Quiet => break,
            }
        }
        late
    }

    /// Keeps a line for after the turn.
    pub fn keep(&mut self, line: String) {
        self.early.push_back(line);
    }

    /// Whether a line must wait behind others that do.
    pub fn keeps_any(&self) -> bool {
        !self.early.is_empty()
    }
}

fn read_pipe(give: &wakeful::UnboundedSender<Heard>) {
    // Bytes that are no text become replacement characters: whoever pipes them in sees in the answer that something was off.
    for line in std::io::stdin().lock().split(b'\n') {
        let Ok(bytes) = line else { break };
        let line =
            String::from_utf8_lossy(bytes.strip_suffix(b"\r").unwrap_or(&bytes)).into_owned();
        if give.send(Heard::Given(Given::Line(line))).is_err() {
            return;
        }
    }
    // Nobody waits any more when this fails.
    let _ = give.send(Heard::Given(Given::End));
}

fn read_terminal(
    history: &Path,
    bell: Option<bell::Listener>,
    wanted: &mpsc::Receiver<Wish>,
    give: &wakeful::UnboundedSender<Heard>,
) {
    let Ok(mut lines) = Lines::open(history) else {
        let _ = give.send(Heard::Given(Given::End));
        return;
    };
    while let Ok(wish) = wanted.recv() {
        let heard = match (wish, &bell) {
            (Wish::Prompt(prompt, asked), _) => Heard::Given(lines.read(&prompt, asked)),
            (Wish::Listen, Some(bell)) => {
                let begun = bell.listen(|line| give.send(Heard::Given(Given::Line(line))).is_ok());
                lines.begun.push_str(&begun);
                Heard::Quiet
            }
            (Wish::Listen, None) => Heard::Quiet,
        };
        if give.send(heard).is_err() {
            return;
        }
    }
}

/// Lines with editing.
struct Lines<'a> {
    /// Keeps what comes behind a line for the next one.
    editor: DefaultEditor,
    history: &'a Path,
    /// What was typed of a line while a turn ran.
    begun: String,
}

impl<'a> Lines<'a> {
    fn open(history: &'a Path) -> rustyline::Result<Self> {
        let config = Config::builder().auto_add_history(true).build();
        let mut editor = DefaultEditor::with_config(config)?;
        // There is none before the first time.
        let _ = editor.load_history(history);
        Ok(Self { editor, history, begun: String::new() })
    }

    fn read(&mut self, prompt: &str, asked: Asked) -> Given {
        let read = match asked {
            Asked::Anything => {
                let begun = std::mem::take(&mut self.begun);
                self.editor.readline_with_initial(prompt, (&begun, ""))
            }
            // What was kept answers no question, and what comes behind an answer not the next one.
            Asked::Answer => DefaultEditor::new().and_then(|mut editor| editor.readline(prompt)),
        };
        match read {
            Ok(line) => {
                if asked == Asked::Anything {
                    // A history that cannot be kept is no reason to stop talking.
                    let _ = self.editor.save_history(self.history);
                }
                Given::Line(line)
            }
            Err(ReadlineError::Interrupted) => Given::Interrupt,
            Err(_) => Given::End,
        }
    }
}

/// Reading a terminal until somebody rings: the terminal does the editing meanwhile, and a half-typed line is left for the
/// prompt that follows.
#[cfg(unix)]
mod bell {
    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::io::{read, write};
    use rustix::pipe::pipe;
    use std::io;
    use std::os::fd::{AsFd, OwnedFd};

    pub struct Ringer(OwnedFd);

    pub struct Listener(OwnedFd);

    pub fn new() -> io::Result<(Ringer, Listener)> {
        let (reader, writer) = pipe()?;
        Ok((Ringer(writer), Listener(reader)))
    }

    fn text(bytes: &[u8]) -> String {
        String::from_utf8_lossy(bytes).into_owned()
    }

    impl Ringer {
        pub fn ring(&self) -> io::Result<()> {
            write(&self.0, b"!")?;
            Ok(())
        }
    }

    impl Listener {
        /// Gives each line on until the bell rings, and gives back what there is of one more. The terminal keeps a line until it
        /// is whole, but for one that was typed before it began to listen; such a one may end as the key does.
        pub fn listen(&self, give: impl Fn(String) -> bool) -> String {
            let stdin = io::stdin();
            let mut held = Vec::new();
            let mut open = true;
            loop {
                let mut fds = vec![PollFd::new(&self.0, PollFlags::IN)];
                if open {
                    fds.push(PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN));
                }
                match poll(&mut fds, None) {
                    Ok(_) => {}
                    Err(rustix::io::Errno::INTR) => continue,
                    Err(_) => return text(&held),
                }
                let ready = |at: usize| fds.get(at).is_some_and(|fd| !fd.revents().is_empty());
                if ready(0) {
                    let _ = read(&self.0, &mut [0; 1]);
                    return text(&held);
                }
                if !ready(1) {
                    continue;
                }
                let mut buffer = [0; 4096];
                match read(stdin.as_fd(), &mut buffer) {
                    // The end of the input is for the prompt to meet.
                    Ok(0) | Err(_) => open = false,
                    Ok(count) => {
                        held.extend_from_slice(buffer.get(..count).unwrap_or_default());
                        while let Some(end) = held.iter().position(|b| b"\r\n".contains(b)) {
                            let line: Vec<u8> = held.drain(..=end).collect();
                            if !give(text(&line).trim_end().to_owned()) {
                                return String::new();
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Other terminals cannot be waited for together with something else; there, nothing is heard while a turn runs.
#[cfg(not(unix))]
mod bell {
    use std::io;

    pub enum Ringer {}

    pub enum Listener {}

    pub fn new() -> io::Result<(Ringer, Listener)> {
        Err(io::ErrorKind::Unsupported.into())
    }

    impl Ringer {
        pub fn ring(&self) -> io::Result<()> {
            match *self {}
        }
    }

    impl Listener {
        pub fn listen(&self, _: impl Fn(String) -> bool) -> String {
            match *self {}
        }
    }
}
