//! Lines of input: with editing and history on a terminal, one after the other from a pipe.

use crate::error::CliError;
use crate::signals::Interrupts;
use rustyline::error::ReadlineError;
use rustyline::{Config, DefaultEditor};
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

/// The input. Reading happens in a thread of its own, since neither terminals nor pipes can be waited for otherwise.
pub struct Input {
    lines: wakeful::UnboundedReceiver<Given>,
    /// Prompts for the reader on a terminal; a pipe is read ahead and needs none.
    prompts: Option<mpsc::Sender<String>>,
    /// A prompt that is shown already.
    asked: bool,
    ended: bool,
}

impl Input {
    /// Standard input; `history` keeps what was typed on a terminal.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn open(history: PathBuf) -> Result<Self, CliError> {
        let (give, lines) = wakeful::unbounded_channel();
        let terminal = std::io::stdin().is_terminal();
        let (prompts, wanted) = mpsc::channel();
        let reader = std::thread::Builder::new().name("input".to_owned());
        let started = if terminal {
            reader.spawn(move || read_terminal(&history, &wanted, &give))
        } else {
            reader.spawn(move || read_pipe(&give))
        };
        started.map_err(CliError::io("the reader of the input cannot be started"))?;
        Ok(Self { lines, prompts: terminal.then_some(prompts), asked: false, ended: false })
    }

    /// Whether a person types at a terminal.
    pub fn is_terminal(&self) -> bool {
        self.prompts.is_some()
    }

    /// The next line. An interrupt that comes as a signal is told as well.
    pub async fn next(&mut self, prompt: &str, interrupts: &mut Interrupts) -> Given {
        if self.ended {
            return Given::End;
        }
        if let Some(prompts) = &self.prompts
            && !std::mem::replace(&mut self.asked, true)
            && prompts.send(prompt.to_owned()).is_err()
        {
            return Given::End;
        }
        tokio::select! {
            given = self.lines.recv() => {
                self.asked = false;
                let given = given.unwrap_or(Given::End);
                self.ended = given == Given::End;
                given
            }
            () = interrupts.next() => Given::Interrupt,
        }
    }
}

fn read_pipe(give: &wakeful::UnboundedSender<Given>) {
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        if give.send(Given::Line(line)).is_err() {
            return;
        }
    }
    // Nobody waits any more when this fails.
    let _ = give.send(Given::End);
}

fn read_terminal(
    history: &Path,
    wanted: &mpsc::Receiver<String>,
    give: &wakeful::UnboundedSender<Given>,
) {
    let config = Config::builder().auto_add_history(true).build();
    let Ok(mut editor) = DefaultEditor::with_config(config) else {
        let _ = give.send(Given::End);
        return;
    };
    // There is none before the first time.
    let _ = editor.load_history(history);
    while let Ok(prompt) = wanted.recv() {
        let given = match editor.readline(prompt.as_str()) {
            Ok(line) => {
                // A history that cannot be kept is no reason to stop talking.
                let _ = editor.save_history(history);
                Given::Line(line)
            }
            Err(ReadlineError::Interrupted) => Given::Interrupt,
            Err(_) => Given::End,
        };
        if give.send(given).is_err() {
            return;
        }
    }
}
