//! The wire contract, as text: a change of the API shows as a change of the snapshot.
//!
//! Renew with `UPDATE_EXPECT=1` only together with a note in CHANGELOG.md.

use std::fmt::Write as _;

use expect_test::expect_file;
use prost::Message as _;
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorSet,
    ServiceDescriptorProto,
    field_descriptor_proto::{Label, Type},
};

#[test]
fn the_wire_contract_is_the_recorded_one() {
    let set = FileDescriptorSet::decode(agentd_proto::FILE_DESCRIPTOR_SET).expect("a set");
    let mut out = String::new();
    let mut files = set.file;
    files.retain(|file| file.package() == "agentd.v1");
    files.sort_by(|a, b| a.name().cmp(b.name()));
    assert!(files.len() >= 8, "{} files", files.len());
    for file in &files {
        writeln!(out, "# {}", file.name()).unwrap();
        file.service.iter().for_each(|item| service(&mut out, item));
        file.message_type
            .iter()
            .for_each(|item| message(&mut out, "", item));
        file.enum_type
            .iter()
            .for_each(|item| enumeration(&mut out, "", item));
    }
    expect_file!["../snapshots/agentd.v1.txt"].assert_eq(&out);
}

#[test]
fn every_enum_starts_with_unspecified_zero() {
    let set = FileDescriptorSet::decode(agentd_proto::FILE_DESCRIPTOR_SET).expect("a set");
    let ours = set.file.iter().filter(|file| file.package() == "agentd.v1");
    for item in ours.flat_map(|file| &file.enum_type) {
        let first = &item.value[0];
        assert_eq!(first.number(), 0, "{}", item.name());
        assert!(first.name().ends_with("_UNSPECIFIED"), "{}", first.name());
    }
}

fn service(out: &mut String, item: &ServiceDescriptorProto) {
    for method in &item.method {
        let stream = |on| if on { "stream " } else { "" };
        writeln!(
            out,
            "rpc {}.{}({}{}) -> {}{}",
            item.name(),
            method.name(),
            stream(method.client_streaming()),
            short(method.input_type()),
            stream(method.server_streaming()),
            short(method.output_type()),
        )
        .unwrap();
    }
}

fn message(out: &mut String, outer: &str, item: &DescriptorProto) {
    let name = format!("{outer}{}", item.name());
    writeln!(out, "message {name}").unwrap();
    for field in &item.field {
        let oneof = match field.oneof_index {
            Some(index) if !field.proto3_optional() => {
                let index = usize::try_from(index).unwrap();
                format!(" oneof {}", item.oneof_decl[index].name())
            }
            _ => String::new(),
        };
        let number = field.number();
        writeln!(out, "  {number} {} {}{oneof}", field.name(), kind(field)).unwrap();
    }
    for range in &item.reserved_range {
        writeln!(out, "  reserved {}..{}", range.start(), range.end()).unwrap();
    }
    let inner = format!("{name}.");
    item.nested_type
        .iter()
        .for_each(|nested| message(out, &inner, nested));
    item.enum_type
        .iter()
        .for_each(|nested| enumeration(out, &inner, nested));
}

fn enumeration(out: &mut String, outer: &str, item: &EnumDescriptorProto) {
    writeln!(out, "enum {outer}{}", item.name()).unwrap();
    for value in &item.value {
        writeln!(out, "  {} {}", value.number(), value.name()).unwrap();
    }
}

fn kind(field: &FieldDescriptorProto) -> String {
    let prefix = match field.label() {
        Label::Repeated => "repeated ",
        Label::Optional if field.proto3_optional() => "optional ",
        Label::Optional | Label::Required => "",
    };
    let name = match field.r#type() {
        Type::Message | Type::Enum | Type::Group => short(field.type_name()).to_owned(),
        other => format!("{other:?}").to_lowercase(),
    };
    format!("{prefix}{name}")
}

fn short(name: &str) -> &str {
    name.trim_start_matches('.')
        .trim_start_matches("agentd.v1.")
}
