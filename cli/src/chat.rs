//! Rendering a chat template in a process of its own.
//!
//! A template is a program from a model's files. It may loop for hours or double a text until memory ends, so it runs in a child of this binary
//! whose processor time and memory the system limits; the prompt it prints is cut off by length.

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use engine::chat::{ChatTemplate, Message};
use serde::{Deserialize, Serialize};

/// The hidden verb that the child runs.
pub const VERB: &str = "render-chat";
/// Processor time of a child, in seconds.
const CPU_SECONDS: u64 = 10;
/// Address space of a child, in bytes.
const MEMORY_BYTES: u64 = 1 << 30;
/// Longest prompt, in bytes.
const MAX_PROMPT_BYTES: u64 = 1 << 22;
/// Longest error message that a child passes on, in characters.
const MAX_MESSAGE: usize = 2000;

/// What the child is given.
#[derive(Serialize, Deserialize)]
struct Task {
    template: ChatTemplate,
    messages: Vec<Message>,
}

/// The prompt for these messages, within limits.
pub fn render(template: &ChatTemplate, messages: &[Message]) -> anyhow::Result<String> {
    let task = serde_json::to_vec(&Task { template: template.clone(), messages: messages.to_vec() })?;
    let this =
        std::env::current_exe().context("finding this binary, to render the chat template in a process of its own")?;
    let mut child = Command::new(this)
        .arg(VERB)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("starting a process for the chat template")?;
    // The child reads everything before it writes anything, so neither waits for the other. It may end early: what it says then counts.
    if let Some(mut input) = child.stdin.take() {
        let _ = input.write_all(&task);
    }
    let mut prompt = Vec::new();
    if let Some(out) = child.stdout.take() {
        out.take(MAX_PROMPT_BYTES + 1).read_to_end(&mut prompt)?;
    }
    if prompt.len() as u64 > MAX_PROMPT_BYTES {
        child.kill().context("stopping the chat template")?;
        child.wait()?;
        bail!("chat template: the prompt is longer than {MAX_PROMPT_BYTES} bytes; the template is refused");
    }
    let mut said = String::new();
    if let Some(err) = child.stderr.take() {
        err.take(1 << 16).read_to_string(&mut said)?;
    }
    let status = child.wait()?;
    match status.code() {
        Some(0) => String::from_utf8(prompt).context("chat template: the prompt is not UTF-8"),
        Some(_) => bail!("{}", said.trim().trim_start_matches("lastbit: ")),
        None => bail!(
            "chat template: stopped ({status}) at {CPU_SECONDS} s of processor time or {} MiB of memory; the template is refused",
            MEMORY_BYTES >> 20
        ),
    }
}

/// The child: reads a task, prints the prompt.
pub fn child() -> anyhow::Result<()> {
    limit()?;
    let mut task = Vec::new();
    std::io::stdin().lock().read_to_end(&mut task)?;
    let task: Task = serde_json::from_slice(&task).context("the task on standard input")?;
    match task.template.render(&task.messages) {
        Ok(prompt) => Ok(std::io::stdout().lock().write_all(prompt.as_bytes())?),
        Err(e) => bail!("{}", e.to_string().chars().take(MAX_MESSAGE).collect::<String>()),
    }
}

#[cfg(unix)]
fn limit() -> anyhow::Result<()> {
    use rlimit::{Resource, setrlimit};
    setrlimit(Resource::CPU, CPU_SECONDS, CPU_SECONDS).context("limiting the processor time of a chat template")?;
    setrlimit(Resource::CORE, 0, 0).context("switching core files off")?;
    setrlimit(Resource::AS, MEMORY_BYTES, MEMORY_BYTES).context("limiting the memory of a chat template")
}

#[cfg(not(unix))]
fn limit() -> anyhow::Result<()> {
    bail!("chat templates are rendered only where the system can limit a process; here it cannot")
}
