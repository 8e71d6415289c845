// A module for the tests of host calls: it makes each call and returns the results in its
// answer.

import {
	BeforeAgentAnswer, BeforeAgentInput, BeforeToolAnswer, BeforeToolInput, Chunk, Description, DescribeInput, Failure, GateToolAnswer, GateToolInput,
	LocalValue, OnChunkAnswer, OnChunkInput, RequestPatch, WrapModelAnswer, WrapModelInput, WrapToolCallAnswer, WrapToolCallInput,
	ask, assistant, describeAs, hook, host, invalid, object, parse, quote, responseOf, stop, user,
} from "../../../assembly";

export function describe(len: i32): i32 {
	return hook<DescribeInput, Description>(len, (_, answer) => describeAs(answer, "probe", "1.0.0", "Makes every host call."));
}

let said: string = "";

function say(what: string, failure: Failure | null, value: string): void {
	said += what + "=" + (failure !== null ? failure.code : value) + "; ";
}

function spelled(reply: host.Reply<LocalValue>): string {
	return reply.ok ? reply.value.value + " " + reply.value.version.toString() : "";
}

export function wrap_model(len: i32): i32 {
	return hook<WrapModelInput, WrapModelAnswer>(len, (input, answer) => {
		const list = input.request.messages;
		said = "";
		for (let i = list.length - 1; i >= 0; i--) {
			const m = list.at(i);
			say("message", m.failure, m.ok ? m.value.content.plain() : "");
			if (!m.ok) break;
		}
		say("beyond", list.at(list.length).failure, "");
		say("changed", null, list.changedSince(5).toString());

		const value = host.localGet("k");
		say("local_get", value.failure, spelled(value));
		const none = host.localGet("none");
		say("missing", none.failure, none.ok ? none.value.version.toString() : "");
		say("local_set", host.localSet("k", '{"n":1}', 7), "ok");
		say("local_set", host.localSet("k", quote('a"b'), host.ALWAYS), "ok");
		const added = host.localAdd("c", -2);
		say("local_add", added.failure, added.value.toString());
		say("local_delete", host.localDelete("k"), "ok");
		const stored = host.storeGet("k");
		say("store_get", stored.failure, spelled(stored));
		say("store_set", host.storeSet("k", "1", 0, 60), "ok");
		const more = host.storeAdd("c", 3);
		say("store_add", more.failure, more.value.toString());
		say("store_delete", host.storeDelete("k"), "ok");
		say("emit", host.emit("seen", '{"n":1}'), "ok");
		host.log(host.Level.Warn, "careful");

		const own = new RequestPatch();
		own.messages.whole = [user("in short?")];
		own.model = "small";
		const short = host.model(own);
		say("model", short.failure, short.ok ? short.value.message.content.plain() : "");
		const time = host.tool("time", "{}");
		say("tool", time.failure, time.ok ? time.value.content.plain() : "");

		const patch = new RequestPatch();
		patch.model = "large";
		patch.messages.insert(list.length, user("one more"));
		const next = host.nextModel(patch);
		say("next", next.failure, next.ok ? next.value.message.content.plain() : "");
		answer.response = responseOf(assistant(said));
		return null;
	});
}

export function wrap_tool_call(len: i32): i32 {
	return hook<WrapToolCallInput, WrapToolCallAnswer>(len, (_, answer) => {
		let failure = host.nextToolStream('{"x":1}');
		while (failure === null) {
			const got = host.recv();
			if (!got.ok) return got.failure;
			if (host.over(got.value)) break;
			const end = got.value.end;
			if (end !== null && end.result !== null) host.log(host.Level.Info, end.result!.content.plain());
			failure = host.send(got.value.chunks);
		}
		return failure;
	});
}

export function on_chunk(len: i32): i32 {
	return hook<OnChunkInput, OnChunkAnswer>(len, (input, answer) => {
		const kept: Chunk[] = [];
		for (let i = 0; i < input.chunks.length; i++) if (input.chunks[i].kind == "text") kept.push(input.chunks[i]);
		answer.chunks = kept;
		return null;
	});
}

export function before_agent(len: i32): i32 {
	return hook<BeforeAgentInput, BeforeAgentAnswer>(len, (_, answer) => {
		answer.stop = stop("closed", "hours");
		return null;
	});
}

export function gate_tool(len: i32): i32 {
	return hook<GateToolInput, GateToolAnswer>(len, (_, answer) => ask(answer, "may it?", '{"cost":1}'));
}

export function before_tool(len: i32): i32 {
	return hook<BeforeToolInput, BeforeToolAnswer>(len, (input, answer) => {
		const args = parse(input.call.arguments);
		if (args === null) return invalid("no arguments");
		answer.arguments = object(["path", args.textOf("path", ".")]);
		return null;
	});
}
