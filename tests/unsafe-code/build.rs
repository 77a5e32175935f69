//! Lets the loopback driver, which tests load at run time, find a sanitizer's runtime: that is part of the test.

fn main() {
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        println!("cargo::rustc-link-arg=-rdynamic");
    }
}
