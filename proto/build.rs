//! Compiles the protocol files with protox, so that no `protoc` is needed.

use std::{env, error::Error, fs, path::PathBuf};

const FILES: &[&str] = &[
    "agentd/v1/admin.proto",
    "agentd/v1/common.proto",
    "agentd/v1/exec.proto",
    "agentd/v1/file.proto",
    "agentd/v1/info.proto",
    "agentd/v1/policy.proto",
    "agentd/v1/session.proto",
    "agentd/v1/tool.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    for file in FILES {
        println!("cargo::rerun-if-changed={file}");
    }
    let mut compiler = protox::Compiler::new(["."])?;
    compiler
        .include_source_info(true)
        .include_imports(true)
        .open_files(FILES)?;
    let with_docs = compiler.file_descriptor_set();

    // The embedded set serves reflection and the snapshot test; comments would only make it larger.
    let mut bare = protox::Compiler::new(["."])?;
    bare.include_imports(true).open_files(FILES)?;
    let out = PathBuf::from(env::var("OUT_DIR")?).join("agentd.v1.bin");
    fs::write(out, bare.encode_file_descriptor_set())?;

    tonic_prost_build::configure()
        .bytes(".")
        .compile_fds(with_docs)?;
    Ok(())
}
