//! Decides which tools may be called with which arguments. It is a gate: it judges the exact bytes
//! that the tool would receive, after all other modules.
//!
//! Unlike the Go version it does not decode disguised values: base64, escapes, JSON inside strings,
//! look-alike letters. Keys are compared ignoring the case of ASCII letters, and patterns are those
//! of `pattern`.

mod pattern;

use agent_middleware::*;
use pattern::Pattern;

#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Action {
    Allow,
    Ask,
    Deny, // the strictest
}

impl Action {
    fn of(name: &str) -> Option<Action> {
        match name {
            "allow" => Some(Action::Allow),
            "ask" => Some(Action::Ask),
            "deny" => Some(Action::Deny),
            _ => None,
        }
    }
}

/// A pattern for the values at a path in a call's arguments.
struct Condition {
    keys: Vec<String>,
    pattern: Pattern,
}

/// A rule matches a call of one of its tools whose arguments meet all its conditions.
struct Rule {
    tools: Vec<String>,
    conditions: Vec<Condition>,
    action: Action,
    message: String,
}

/// State that configure computes is part of the module's memory image.
struct Policy {
    rules: Vec<Rule>,
    default: Action,
}

impl Default for Policy {
    fn default() -> Self {
        Policy { rules: Vec::new(), default: Action::Allow }
    }
}

export!(Policy: configure, gate_tool);

const SCHEMA: &str = r#"{"type":"object","additionalProperties":false,"properties":{
    "rules":{"type":"array","description":"the strictest of those that match a call counts","items":{"type":"object","additionalProperties":false,"properties":{
        "tools":{"type":"array","items":{"type":"string"},"description":"names of tools; * matches any characters"},
        "arguments":{"type":"array","description":"all of them must hold","items":{"type":"object","additionalProperties":false,"properties":{
            "path":{"type":"string","description":"keys separated by dots, * for any key or item"},
            "pattern":{"type":"string","description":"a regular expression that must match somewhere in the value"}}}},
        "action":{"type":"string","description":"allow, ask or deny"},
        "message":{"type":"string","description":"the message about a call that this rule denies, for the model, or that it asks about, for the person"}}}},
    "default":{"type":"string","description":"what becomes of a call that no rule matches: allow, ask or deny"}}}"#;

impl Middleware for Policy {
    fn describe(&self) -> Description {
        Description {
            config_schema: SCHEMA.into(),
            messages: "none".into(),
            ..Description::new("tool-policy", "1.1.0", "Allows, denies and asks about tool calls by tool and arguments, as they are spelled.")
        }
    }

    fn configure(&mut self, input: ConfigureInput) -> Result<(), Error> {
        let config = input.config.value()?;
        let default = text(&config, "default", "allow");
        self.default = Action::of(default).ok_or_else(|| invalid(format!("default: {:?} is not one of allow, ask, deny", default)))?;
        self.rules.clear();
        for (i, value) in items(&config, "rules").iter().enumerate() {
            let at = format!("rules[{}]", i);
            let rule = Rule::read(value, &at)?;
            if rule.action == Action::Allow && self.default == Action::Allow {
                return Err(invalid(format!("{}.action: allow has no effect if the default is allow; set default to deny or ask", at)));
            }
            self.rules.push(rule);
        }
        Ok(())
    }

    /// Applies the strictest matching rule, or the default if none matches.
    fn gate_tool(&mut self, input: GateToolInput) -> Result<GateToolAnswer, Error> {
        let tool = &input.call.name;
        let unreadable = |why: &str| Ok(GateToolAnswer::deny(format!("The policy cannot read the arguments of {}: {}", tool, why)));
        let arguments = match input.call.arguments.as_str() {
            "" => Value::Object(Vec::new()),
            text => match Value::decode_json(text) {
                Ok(value) => value,
                Err(e) => return unreadable(e.why),
            },
        };
        if !matches!(arguments, Value::Object(_)) {
            return unreadable("want an object");
        }
        let mut by: Option<(usize, &Rule)> = None;
        for (i, rule) in self.rules.iter().enumerate() {
            if by.map_or(true, |(_, b)| rule.action > b.action) && rule.matches(tool, &arguments) {
                by = Some((i, rule));
            }
        }
        let message = by.map(|(_, r)| r.message.clone()).filter(|m| !m.is_empty());
        Ok(match by.map_or(self.default, |(_, r)| r.action) {
            Action::Allow => GateToolAnswer::allow(),
            Action::Ask => {
                let index = by.map_or(-1, |(i, _)| i as i64);
                GateToolAnswer::ask(message.unwrap_or_else(|| format!("May {} be called with these arguments?", tool)), Raw(format!(r#"{{"rule":{}}}"#, index)))
            }
            Action::Deny => GateToolAnswer::deny(message.unwrap_or_else(|| match by {
                Some(_) => format!("The policy does not allow calls of {} with these arguments.", tool),
                None => format!("The policy does not allow this call of {}.", tool),
            })),
        })
    }
}

fn invalid(text: String) -> Error {
    Error::invalid(format!("config: {}", text))
}

fn text<'a>(value: &'a Value, key: &str, otherwise: &'a str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or(otherwise)
}

fn items<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    match value.get(key) {
        Some(Value::List(items)) => items,
        _ => &[],
    }
}

impl Rule {
    fn read(value: &Value, at: &str) -> Result<Rule, Error> {
        if !matches!(value, Value::Object(_)) {
            return Err(invalid(format!("{}: want an object", at)));
        }
        let action = text(value, "action", "");
        let action = Action::of(action).ok_or_else(|| invalid(format!("{}.action: {:?} is not one of allow, ask, deny", at, action)))?;
        let tools: Vec<String> = items(value, "tools").iter().map(|t| t.as_str().unwrap_or("").into()).collect();
        if tools.is_empty() {
            return Err(invalid(format!("{}.tools: name at least one tool; * is all of them", at)));
        }
        if let Some(i) = tools.iter().position(|t| t.is_empty()) {
            return Err(invalid(format!("{}.tools[{}]: a tool's name is never empty; * is all of them", at, i)));
        }
        let conditions = items(value, "arguments").iter().enumerate().map(|(i, c)| Condition::read(c, &format!("{}.arguments[{}]", at, i)));
        Ok(Rule { tools, conditions: conditions.collect::<Result<_, _>>()?, action, message: text(value, "message", "").into() })
    }

    /// Reports whether the rule applies to a call. A rule that denies or asks applies if any value
    /// matches, so one good value does not hide a bad one. A rule that allows applies only if all
    /// values match.
    fn matches(&self, tool: &str, arguments: &Value) -> bool {
        self.tools.iter().any(|t| named(tool, t))
            && self.conditions.iter().all(|c| {
                let mut values = Vec::new();
                values_at(arguments, &c.keys, &mut values);
                let mut matching = values.iter().map(|v| c.pattern.matches(v));
                match self.action {
                    Action::Allow => !values.is_empty() && matching.all(|m| m),
                    _ => matching.any(|m| m),
                }
            })
    }
}

impl Condition {
    fn read(value: &Value, at: &str) -> Result<Condition, Error> {
        if !matches!(value, Value::Object(_)) {
            return Err(invalid(format!("{}: want an object", at)));
        }
        let path = text(value, "path", "");
        let keys: Vec<String> = if path.is_empty() { Vec::new() } else { path.split('.').map(Into::into).collect() };
        if keys.iter().any(|k| k.is_empty()) {
            return Err(invalid(format!("{}.path: {:?} has an empty key; want keys separated by single dots", at, path)));
        }
        match text(value, "pattern", "") {
            "" => Err(invalid(format!("{}.pattern: want a pattern for the value; . matches any value that is not empty", at))),
            pattern => Ok(Condition { keys, pattern: Pattern::new(pattern).map_err(|why| invalid(format!("{}.pattern: {}", at, why)))? }),
        }
    }
}

/// Reports whether a name matches a pattern. In a pattern, * matches any sequence of characters,
/// including none.
fn named(name: &str, pattern: &str) -> bool {
    let mut parts = pattern.split('*');
    let mut rest = match name.strip_prefix(parts.next().unwrap_or("")) {
        Some(rest) => rest,
        None => return false,
    };
    let last = match parts.next_back() {
        Some(last) => last,
        None => return rest.is_empty(),
    };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// Appends the values at a path, as texts. Keys are compared case-insensitively, because some tools
/// read "Path" as "path".
fn values_at(value: &Value, path: &[String], out: &mut Vec<String>) {
    let (key, rest) = path.split_first().map_or(("*", path), |(key, rest)| (key.as_str(), rest));
    match value {
        Value::Object(fields) => {
            for (name, item) in fields {
                if key == "*" || key.eq_ignore_ascii_case(name) {
                    values_at(item, rest, out);
                }
            }
        }
        Value::List(items) => {
            for (i, item) in items.iter().enumerate() {
                if key == "*" || key == i.to_string() {
                    values_at(item, rest, out);
                }
            }
        }
        _ if !path.is_empty() => {}
        Value::Text(text) => out.push(text.clone()),
        Value::Number(literal) => out.push(number(literal)),
        Value::Bool(is) => out.push(is.to_string()),
        Value::Null => out.push("null".into()),
    }
}

/// Returns one spelling for all literals of a number, so that 1e3 does not pass where 1000 would
/// not. A number of more than 64 digits, of 1e64 or more, or closer to 0 than 1e-10 is returned
/// unchanged.
fn number(literal: &str) -> String {
    let (mantissa, exponent) = literal.split_once(|c| c == 'e' || c == 'E').unwrap_or((literal, "0"));
    let (negative, mantissa) = mantissa.strip_prefix('-').map_or((false, mantissa), |m| (true, m));
    let (whole, behind) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{}{}", whole, behind);
    let zeros = digits.len() - digits.trim_start_matches('0').len();
    let digits = digits.trim_matches('0');
    if digits.is_empty() {
        return "0".into();
    }
    let point = match exponent.parse::<i64>() {
        Ok(e) => (whole.len() as i64 - zeros as i64).saturating_add(e), // number of digits before the point
        Err(_) => return literal.into(),
    };
    if !(-9..=64).contains(&point) || digits.len() > 64 {
        return literal.into();
    }
    let sign = if negative { "-" } else { "" };
    let n = digits.len() as i64;
    if point <= 0 {
        format!("{}0.{}{}", sign, "0".repeat(-point as usize), digits)
    } else if point >= n {
        format!("{}{}{}", sign, digits, "0".repeat((point - n) as usize))
    } else {
        format!("{}{}.{}", sign, &digits[..point as usize], &digits[point as usize..])
    }
}
