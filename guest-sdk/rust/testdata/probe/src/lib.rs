//! A module for the tests of host calls: it makes each call and returns the results in
//! its answer.

use agent_middleware::*;

#[derive(Default)]
struct Probe {
    said: String,
}

export!(Probe: wrap_model, wrap_tool_call, on_chunk, before_agent, gate_tool, before_tool);

impl Probe {
    fn say(&mut self, what: &str, value: Result<String, Error>) {
        self.said += &format!("{}={}; ", what, value.unwrap_or_else(|e| e.code));
    }
}

fn spelled(value: LocalValue) -> String {
    format!("{} {}", value.value.0, value.version)
}

fn ok(_: ()) -> String {
    "ok".into()
}

fn said(response: Response) -> String {
    response.message.content.plain()
}

impl Middleware for Probe {
    fn describe(&self) -> Description {
        Description::new("probe", "1.0.0", "Makes every host call.")
    }

    fn wrap_model(&mut self, input: WrapModelInput) -> Result<WrapModelAnswer, Error> {
        let list = &input.request.messages;
        self.said.clear();
        for i in (0..list.len()).rev() {
            let message = list.at(i);
            let failed = message.is_err();
            self.say("message", message.map(|m| m.content.plain()));
            if failed {
                break;
            }
        }
        self.say("beyond", list.at(list.len()).map(|_| String::new()));
        self.say("changed", Ok(list.changed_since(5).to_string()));

        self.say("local_get", host::local_get("k").map(|v| spelled(v.unwrap_or_default())));
        self.say("missing", host::local_get("none").map(|v| v.map_or(0, |v| v.version).to_string()));
        self.say("local_set", host::local_set("k", &Raw::from(r#"{"n":1}"#), 7).map(ok));
        self.say("local_set", host::local_set("k", &Raw::text("a\"b"), host::ALWAYS).map(ok));
        self.say("local_add", host::local_add("c", -2).map(|n| n.to_string()));
        self.say("local_delete", host::local_delete("k").map(ok));
        self.say("store_get", host::store_get("k").map(|v| spelled(v.unwrap_or_default())));
        self.say("store_set", host::store_set("k", &Raw::from("1"), 0, 60).map(ok));
        self.say("store_add", host::store_add("c", 3).map(|n| n.to_string()));
        self.say("store_delete", host::store_delete("k").map(ok));
        self.say("emit", host::emit("seen", Raw::from(r#"{"n":1}"#)).map(ok));
        host::log(host::Level::Warn, "careful");

        let own = RequestPatch { messages: ListPatch::just(Message::user("in short?")), model: "small".into(), ..Default::default() };
        self.say("model", host::model(&own).map(said));
        self.say("tool", host::tool("time", "{}").map(|r| r.content.plain()));

        let mut patch = RequestPatch { model: "large".into(), ..Default::default() };
        patch.messages.insert(list.len(), Message::user("one more"));
        self.say("next", host::next_model(Some(&patch)).map(said));
        let response = Response::new(Message::assistant(self.said.clone()));
        Ok(WrapModelAnswer { response: Some(response), ..Default::default() })
    }

    fn wrap_tool_call(&mut self, _: WrapToolCallInput) -> Result<WrapToolCallAnswer, Error> {
        host::next_tool_stream(Some(r#"{"x":1}"#))?;
        while let Some(got) = host::recv()? {
            if let Some(result) = got.end.and_then(|end| end.result) {
                host::log(host::Level::Info, &result.content.plain());
            }
            host::send(got.chunks)?;
        }
        Ok(Default::default())
    }

    fn on_chunk(&mut self, input: OnChunkInput) -> Result<OnChunkAnswer, Error> {
        let chunks = input.chunks.into_iter().filter(|c| c.kind == "text").collect();
        Ok(OnChunkAnswer { chunks: Some(chunks), ..Default::default() })
    }

    fn before_agent(&mut self, _: BeforeAgentInput) -> Result<BeforeAgentAnswer, Error> {
        Ok(BeforeAgentAnswer { stop: Some(Stop::new("closed", "hours")), ..Default::default() })
    }

    fn gate_tool(&mut self, _: GateToolInput) -> Result<GateToolAnswer, Error> {
        Ok(GateToolAnswer::ask("may it?", Raw::from(r#"{"cost":1}"#)))
    }

    fn before_tool(&mut self, input: BeforeToolInput) -> Result<BeforeToolAnswer, Error> {
        let arguments = Value::decode_json(&input.call.arguments)?;
        let path = arguments.get("path").and_then(Value::as_str).unwrap_or(".");
        Ok(BeforeToolAnswer { arguments: Some(Raw::object(&[("path", path)]).0), ..Default::default() })
    }
}
