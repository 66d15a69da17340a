//! The file of secrets that profiles hide without an error: a command sees an empty file in its place,
//! or none, so its output says nothing. The script does: it names the file. Pure.

use super::{
    Scene,
    lines::is_path_char,
    suspect::{Access, Suspect},
};

const NAME: &str = ".env";

/// The working directory's `.env` when the script names it; whether it is hidden the policy says.
#[must_use]
pub fn mentioned(scene: &Scene<'_>) -> Option<Suspect> {
    let script = String::from_utf8_lossy(scene.script_head());
    let path = format!("{}/{NAME}", scene.cwd.trim_end_matches('/'));
    let below_cwd = path.strip_suffix(NAME).unwrap_or_default();
    let named = script.match_indices(NAME).any(|(at, _)| {
        let before = script.get(..at).unwrap_or_default();
        let after = script.get(at.saturating_add(NAME.len())..);
        let before = ["./", below_cwd]
            .iter()
            .find_map(|dir| before.strip_suffix(dir))
            .unwrap_or(before);
        !before.ends_with(is_path_char) && !after.unwrap_or_default().starts_with(is_path_char)
    });
    named.then_some(Suspect::Path {
        path,
        access: Access::Read,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_that_names_the_file_is_told_from_one_that_names_others() {
        let found = |script: &str| {
            mentioned(&Scene {
                script: script.as_bytes(),
                cwd: "/w",
            })
        };
        let expected = Some(Suspect::Path {
            path: "/w/.env".to_owned(),
            access: Access::Read,
        });
        for script in [
            "cat .env",
            "cat ./.env; true",
            "cat '/w/.env'",
            ". .env\nrun",
            "wc <.env",
            "'cat' '.env'",
        ] {
            assert_eq!(found(script), expected, "{script}");
        }
        for script in [
            "",
            "node -e 'process.env.HOME'",
            "cat .env.example",
            "cat .envrc",
            "cat sub/.env",
            "cat ../.env",
            "cat /other/.env",
            "cat /v/w/.env",
        ] {
            assert_eq!(found(script), None, "{script}");
        }
    }
}
