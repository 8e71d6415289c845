package main

import (
	_ "embed"
	"slices"
	"strings"
)

// A section is a table that a command writes.
type section struct {
	title, before, after string
	command              []string
}

// peers is the text that describes the purpose of each peer in the first table.
//
//go:embed peers.md
var peers string

// sections returns the sections of the report. plot is the path of the file for the plot, others
// lists the files of guests in other languages, and missing has a line for each language without a
// toolchain.
func sections(plot string, others []string, missing string, quick bool) []section {
	turns, each := "10", "400ms"
	if quick {
		turns, each = "3", "200ms"
	}
	if missing != "" {
		missing = "\n" + missing
	}
	return []section{
		{
			title: "Compared with alternatives",
			before: "The same agent runs four steps with three tool calls and five middlewares: one answers dangling calls, one gates tools, one redacts the stream and the results, one caches a tool, one observes. Every run of every peer is checked for the same chunks, results, counters, tool calls and model requests. " +
				"The peers run alternately in one process; side-cars and plug-ins have processes of their own. The last column is the median ratio of the rounds, with the minimum and maximum in brackets. " +
				"Targets for Go guests: 10 times as fast as Extism with timeouts, 5 times as HTTP side-cars, 2 times as go-plugin, a third of native Go, half of Eino.\n\n![](performance.svg)",
			after: missing + "\n" + peers,
			command: slices.Concat(
				[]string{"agents", "-turns", turns, "-each", each, "-svg", plot, "five.wasm", "five-extism.wasm"},
				others,
			),
		},
		{
			title: "Compared with LangChain.js",
			before: "The same agent with five middlewares of the same work in LangChain.js (`createAgent`), which is JavaScript in one process of Node.js without a sandbox, and without middlewares. The runs are interleaved; each row and its run without middlewares are measured one after the other. " +
				"Times are processor time of all processes: medians, and medians of the ratios of the rounds. Every run is checked as above. LangChain.js has no hook for chunks: its redaction rewrites the finished message, and a reader of the stream sees the addresses. With `invoke` nothing is streamed.",
			command: slices.Concat(
				[]string{"agents", "-turns", turns, "-each", each, "-langchain", "langchain", "five.wasm", "-"},
				scripts(others),
			),
		},
		{
			title:   "Cost per module: linear",
			before:  "The same agent with the redacting module once, twice and more often.",
			command: []string{"agents", "-line", "-each", each, "five.wasm", "-"},
		},
		{
			title: "Length of the conversation: at most 1.5 times from 10 to 20,000 messages",
			before: "One step of a run after a number of messages of 1 KB, with a module that reads no message, the last one, or each one once. The first step is listed separately, because a module that reads all messages reads them then. " +
				"\"Memory gone at each hook\" stands for a new instance per hook: what the module has read is either in a run-local value or lost. If it is lost, each step reads all messages. " +
				"The ratio compares the CPU time of host and guest, which hardly depends on the load of the machine: the median of the rounds, with the minimum and maximum in brackets.",
			command: []string{"history", "messages", "look.wasm"},
		},
		{
			title:   "Length of a journaled conversation: each step writes the same",
			before:  "A later step of a run with and without a journal in SQLite, after a number of messages of 1 KB, and what a step writes to the journal. The ratio compares the CPU time of the journaled step.",
			command: []string{"history", "journal", "look.wasm"},
		},
		{
			title:   "Length of a stream: each chunk costs the same",
			before:  "A model streams a number of chunks as fast as they are read, through modules that search them for addresses, to a reader. The ratio compares CPU time.",
			command: []string{"history", "chunks", "five.wasm"},
		},
		{
			title:   "Number of events: each event costs the same",
			before:  "A middleware sends an event after a number of other events of the run. The time ends when the reader has it. A reader that resumes after a number of events requests a hundred. The ratio compares CPU time.",
			command: []string{"history", "events", "look.wasm"},
		},
		{
			title:   "JSON in the guest: at least four times as fast as encoding/json",
			command: []string{"codec", "codec.wasm"},
		},
		{
			title:   "Concurrent runs",
			before:  "A number of concurrent runs with five modules.",
			command: []string{"agents", "-concurrent", "-each", each, "five.wasm", "-"},
		},
		{title: "Memory: at most 2 GB for 1,000 runs", command: []string{"agents", "-memory", "five.wasm", "-"}},
	}
}

// scripts returns the guests that are scripts.
func scripts(guests []string) []string {
	return slices.DeleteFunc(slices.Clone(guests), func(path string) bool { return !strings.HasSuffix(path, ".ts") })
}
