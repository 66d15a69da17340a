//! The walk over a syntax tree: every simple command and every redirection, wherever it stands, meets
//! the rules.

use agentd_sandbox::profile::CommandRule;
use brush_parser::ast;

use super::{
    Blocked, CommandVerdict, brace, rule, rule::Candidate, script, word, word::Word, wrapper,
    wrapper::Inner,
};

/// How deep scripts may be nested in scripts, wrappers in wrappers.
const MAX_NESTING: u32 = 16;

/// How much nested script text is read in all, in bytes; a script that multiplies itself ends here.
const MAX_READ_BYTES: usize = 4 * 1024 * 1024;

/// What reading a script costs at least, whatever its length.
const SCRIPT_COST: usize = 64;

/// Longest quotation of what matched, in characters.
const MAX_MATCHED_CHARS: usize = 200;

/// Checks a script against rules on its syntax tree.
pub(super) fn check(rules: &[CommandRule], text: &str) -> CommandVerdict {
    let mut walk = Walk {
        rules,
        verdict: CommandVerdict::default(),
        nesting: 0,
        left: MAX_READ_BYTES,
    };
    walk.script(text);
    walk.verdict
}

struct Walk<'r> {
    rules: &'r [CommandRule],
    verdict: CommandVerdict,
    nesting: u32,
    /// Bytes of script that may still be read.
    left: usize,
}

impl Walk<'_> {
    /// Reads a script; nested ones too.
    fn script(&mut self, text: &str) {
        let cost = text.len().saturating_add(SCRIPT_COST);
        let program = match self.left.checked_sub(cost) {
            Some(left) if self.nesting < MAX_NESTING => {
                self.left = left;
                script::parse(text)
            }
            Some(_) | None => None,
        };
        let Some(program) = program else {
            self.verdict.unparsable = true;
            return;
        };
        self.deeper(|walk| {
            program
                .complete_commands
                .iter()
                .for_each(|list| walk.list(list));
        });
    }

    fn deeper(&mut self, work: impl FnOnce(&mut Self)) {
        self.nesting = self.nesting.saturating_add(1);
        work(self);
        self.nesting = self.nesting.saturating_sub(1);
    }

    fn scripts(&mut self, texts: &[String]) {
        for text in texts {
            if self.verdict.blocked.is_none() {
                self.script(text);
            }
        }
    }

    fn list(&mut self, list: &ast::CompoundList) {
        for ast::CompoundListItem(and_or, _) in &list.0 {
            for (_, pipeline) in and_or {
                for command in &pipeline.seq {
                    if self.verdict.blocked.is_none() {
                        self.command(command);
                    }
                }
            }
        }
    }

    fn command(&mut self, command: &ast::Command) {
        match command {
            ast::Command::Simple(simple) => self.simple(simple),
            ast::Command::Compound(compound, redirects) => {
                self.compound(compound);
                self.redirect_list(redirects.as_ref());
            }
            ast::Command::Function(function) => {
                self.compound(&function.body.0);
                self.redirect_list(function.body.1.as_ref());
            }
            ast::Command::ExtendedTest(test, redirects) => {
                self.test(&test.expr);
                self.redirect_list(redirects.as_ref());
            }
        }
    }

    fn compound(&mut self, compound: &ast::CompoundCommand) {
        match compound {
            ast::CompoundCommand::Arithmetic(arithmetic) => self.arithmetic(Some(&arithmetic.expr)),
            ast::CompoundCommand::ArithmeticForClause(clause) => {
                for part in [&clause.initializer, &clause.condition, &clause.updater] {
                    self.arithmetic(part.as_ref());
                }
                self.list(&clause.body.list);
            }
            ast::CompoundCommand::BraceGroup(group) => self.list(&group.list),
            ast::CompoundCommand::Subshell(subshell) => self.list(&subshell.list),
            ast::CompoundCommand::ForClause(clause) => {
                clause
                    .values
                    .iter()
                    .flatten()
                    .for_each(|word| self.word(word));
                self.list(&clause.body.list);
            }
            ast::CompoundCommand::CaseClause(clause) => self.case(clause),
            ast::CompoundCommand::IfClause(clause) => {
                self.list(&clause.condition);
                self.list(&clause.then);
                for part in clause.elses.iter().flatten() {
                    part.condition
                        .iter()
                        .for_each(|condition| self.list(condition));
                    self.list(&part.body);
                }
            }
            ast::CompoundCommand::WhileClause(clause)
            | ast::CompoundCommand::UntilClause(clause) => {
                self.list(&clause.0);
                self.list(&clause.1.list);
            }
            ast::CompoundCommand::Coprocess(coprocess) => self.command(&coprocess.body),
        }
    }

    fn case(&mut self, clause: &ast::CaseClauseCommand) {
        self.word(&clause.value);
        for item in &clause.cases {
            item.patterns.iter().for_each(|pattern| self.word(pattern));
            item.cmd.iter().for_each(|list| self.list(list));
        }
    }

    fn test(&mut self, expression: &ast::ExtendedTestExpr) {
        match expression {
            ast::ExtendedTestExpr::And(left, right) | ast::ExtendedTestExpr::Or(left, right) => {
                self.test(left);
                self.test(right);
            }
            ast::ExtendedTestExpr::Not(inner) | ast::ExtendedTestExpr::Parenthesized(inner) => {
                self.test(inner);
            }
            ast::ExtendedTestExpr::UnaryTest(_, operand) => self.word(operand),
            ast::ExtendedTestExpr::BinaryTest(_, left, right) => {
                self.word(left);
                self.word(right);
            }
        }
    }

    fn arithmetic(&mut self, expression: Option<&ast::UnexpandedArithmeticExpr>) {
        if let Some(expression) = expression {
            self.scripts(&word::scripts_in_body(&expression.value));
        }
    }

    /// A word that is not part of a command: only what is nested in it runs.
    fn word(&mut self, word: &ast::Word) {
        self.scripts(&Word::parse(&word.value).scripts);
    }

    fn redirect_list(&mut self, redirects: Option<&ast::RedirectList>) {
        let mut parts = Parts::default();
        for redirect in redirects.iter().flat_map(|list| &list.0) {
            self.redirect(redirect, &mut parts);
        }
        self.rules(&parts);
    }

    fn simple(&mut self, simple: &ast::SimpleCommand) {
        let mut parts = Parts::default();
        let prefix = simple.prefix.iter().flat_map(|prefix| &prefix.0);
        for item in prefix {
            match item {
                ast::CommandPrefixOrSuffixItem::AssignmentWord(_, word) => self.word(word),
                ast::CommandPrefixOrSuffixItem::IoRedirect(_)
                | ast::CommandPrefixOrSuffixItem::Word(_)
                | ast::CommandPrefixOrSuffixItem::ProcessSubstitution(..) => {
                    self.item(item, &mut parts);
                }
            }
        }
        if let Some(name) = &simple.word_or_name {
            self.argument(name, &mut parts);
        }
        for item in simple.suffix.iter().flat_map(|suffix| &suffix.0) {
            self.item(item, &mut parts);
        }
        self.rules(&parts);
        self.inner(&parts);
    }

    fn item(&mut self, item: &ast::CommandPrefixOrSuffixItem, parts: &mut Parts) {
        match item {
            ast::CommandPrefixOrSuffixItem::IoRedirect(redirect) => self.redirect(redirect, parts),
            ast::CommandPrefixOrSuffixItem::Word(word)
            | ast::CommandPrefixOrSuffixItem::AssignmentWord(_, word) => self.argument(word, parts),
            ast::CommandPrefixOrSuffixItem::ProcessSubstitution(_, subshell) => {
                self.list(&subshell.list);
                // A path such as /dev/fd/63 stands in its place.
                parts.words.push(Word::default());
            }
        }
    }

    fn argument(&mut self, word: &ast::Word, parts: &mut Parts) {
        self.word(word);
        let words = brace::expand(&word.value);
        parts.words.extend(words.iter().map(|raw| Word::parse(raw)));
    }

    fn redirect(&mut self, redirect: &ast::IoRedirect, parts: &mut Parts) {
        match redirect {
            ast::IoRedirect::File(_, kind, target) => self.file_redirect(kind, target, parts),
            ast::IoRedirect::OutputAndError(target, _) => {
                self.word(target);
                parts.redirects.push(Word::parse(&target.value));
            }
            ast::IoRedirect::HereString(_, text) => {
                self.word(text);
                parts.input.push(Word::parse(&text.value).script);
            }
            ast::IoRedirect::HereDocument(_, document) => {
                if document.requires_expansion {
                    self.scripts(&word::scripts_in_body(&document.doc.value));
                }
                parts.input.push(document.doc.value.clone());
            }
        }
    }

    fn file_redirect(
        &mut self,
        kind: &ast::IoFileRedirectKind,
        target: &ast::IoFileRedirectTarget,
        parts: &mut Parts,
    ) {
        let output = match kind {
            ast::IoFileRedirectKind::Write
            | ast::IoFileRedirectKind::Append
            | ast::IoFileRedirectKind::ReadAndWrite
            | ast::IoFileRedirectKind::Clobber
            | ast::IoFileRedirectKind::DuplicateOutput => true,
            ast::IoFileRedirectKind::Read | ast::IoFileRedirectKind::DuplicateInput => false,
        };
        match target {
            ast::IoFileRedirectTarget::Filename(word)
            | ast::IoFileRedirectTarget::Duplicate(word) => {
                self.word(word);
                if output {
                    parts.redirects.push(Word::parse(&word.value));
                }
            }
            ast::IoFileRedirectTarget::ProcessSubstitution(_, subshell) => {
                self.list(&subshell.list);
            }
            ast::IoFileRedirectTarget::Fd(_) => {}
        }
    }

    /// Compares a command with every rule.
    fn rules(&mut self, parts: &Parts) {
        if self.verdict.blocked.is_some() {
            return;
        }
        let candidate = Candidate {
            words: &parts.words,
            redirects: &parts.redirects,
        };
        self.verdict.blocked = self.rules.iter().find_map(|rule| {
            rule::matched(rule, candidate).map(|matched| Blocked {
                rule: rule.rule.clone(),
                matched: matched.chars().take(MAX_MATCHED_CHARS).collect(),
                reason: rule.reason.clone(),
            })
        });
    }

    /// Looks through a wrapper.
    fn inner(&mut self, parts: &Parts) {
        for inner in wrapper::inner(&parts.words, &parts.input) {
            if self.verdict.blocked.is_some() {
                return;
            }
            match inner {
                Inner::Script(text) => self.script(&text),
                Inner::Command(words) if self.nesting < MAX_NESTING => {
                    let parts = Parts {
                        words,
                        ..Parts::default()
                    };
                    self.rules(&parts);
                    self.deeper(|walk| walk.inner(&parts));
                }
                Inner::Command(_) => self.verdict.unparsable = true,
            }
        }
    }
}

/// What a command consists of.
#[derive(Default)]
struct Parts {
    /// The program and its arguments.
    words: Vec<Word>,
    /// Targets of output redirections.
    redirects: Vec<Word>,
    /// Texts given to standard input.
    input: Vec<String>,
}
