//! An HTTP client of a few lines for tests of the service: it can misbehave, which real clients do not. It speaks HTTP/1.0, so that an answer ends
//! where the connection does.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// Header lines.
    pub head: String,
    /// Body.
    pub body: String,
}

impl Answer {
    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|l| l.split_once(':'));
        lines.filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.trim()).next()
    }

    /// What the server-sent events of the body carry, the closing `[DONE]` included.
    pub fn events(&self) -> Vec<String> {
        self.body.lines().filter_map(|l| l.strip_prefix("data: ")).map(str::to_owned).collect()
    }

    /// Reads an answer as it came over the wire.
    ///
    /// # Panics
    /// When it is none.
    pub fn parse(bytes: &[u8]) -> Self {
        let text = String::from_utf8(bytes.to_vec()).expect("an answer is text");
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
        let status = head.split(' ').nth(1).and_then(|s| s.parse().ok()).expect("a status");
        Self { status, head: head.to_owned(), body: body.to_owned() }
    }
}

/// A service under test.
#[derive(Clone, Debug)]
pub struct Client {
    /// Where it listens.
    pub address: SocketAddr,
    /// Header lines of every call, each ended by `\r\n`.
    pub headers: String,
}

impl Client {
    /// A client without headers of its own.
    pub fn new(address: SocketAddr) -> Self {
        Self { address, headers: String::new() }
    }

    /// With one more header.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push_str(&format!("{name}: {value}\r\n"));
        self
    }

    /// A connection that gives up after two minutes of silence.
    ///
    /// # Panics
    /// When nobody listens.
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("the service listens");
        stream.set_read_timeout(Some(Duration::from_secs(120))).expect("a timeout");
        stream
    }

    /// Sends a call, and leaves its answer on the connection.
    ///
    /// # Panics
    /// When nobody listens.
    pub fn send(&self, method: &str, path: &str, body: &[u8]) -> TcpStream {
        let mut stream = self.connect();
        let headers = &self.headers;
        let head = format!(
            "{method} {path} HTTP/1.0\r\nHost: test\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{headers}\r\n",
            body.len()
        );
        // A service that refuses early may stop reading; its answer is what counts.
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
        stream
    }

    /// Sends a call and reads the whole answer.
    ///
    /// # Panics
    /// When there is no answer.
    pub fn call(&self, method: &str, path: &str, body: &[u8]) -> Answer {
        read(&mut self.send(method, path, body))
    }

    /// Posts JSON.
    ///
    /// # Panics
    /// When there is no answer.
    pub fn post(&self, path: &str, body: &str) -> Answer {
        self.call("POST", path, body.as_bytes())
    }

    /// Gets.
    ///
    /// # Panics
    /// When there is no answer.
    pub fn get(&self, path: &str) -> Answer {
        self.call("GET", path, b"")
    }
}

/// Reads what is left of an answer.
///
/// # Panics
/// When it is none.
pub fn read(stream: &mut TcpStream) -> Answer {
    let mut bytes = Vec::new();
    // A reset after the answer is the server's way of refusing the rest of a body.
    let _ = stream.read_to_end(&mut bytes);
    Answer::parse(&bytes)
}
