package main

import (
	_ "embed"
	"slices"
)

// A section is one table, made by one command.
type section struct {
	title, before, after string
	command              []string
}

// peers says how each peer of the first table is used.
//
//go:embed peers.md
var peers string

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
			title: "Against what people would use instead",
			before: "The same agent, four steps with three calls of a tool, and five middlewares of the same work: dangling calls answered, a gate, redaction of the stream and of results, a cache around the tool, an observer. " +
				"Each run of each peer is held against the same chunks, results, counters, calls that reach the tool, and requests of the model with the dangling call answered. The peers run by turns in one process, one run after the other; their own processes are the side-cars' and the plug-ins'. " +
				"The last column is the median of the turns, least and most in brackets. " +
				"Targets: with Go guests 10 times as fast as Extism with time-outs, 5 times as HTTP side-cars, 2 times as go-plugin, a third of native Go, half of Eino.\n\n![](performance.svg)",
			after:   missing + "\n" + peers,
			command: slices.Concat([]string{"agents", "-turns", turns, "-each", each, "-svg", plot, "five.wasm", "five-extism.wasm"}, others),
		},
		{
			title:   "What each module more costs: a straight line",
			before:  "The same agent with the redaction once, twice and more often.",
			command: []string{"agents", "-line", "-each", each, "five.wasm", "-"},
		},
		{
			title: "As the conversation grows: at most 1.5 times from 10 to 20,000 messages",
			before: "A step of a run, with a conversation of so many messages of 1 KB before it, and a module that looks at nothing, at the last message, or at all of them once. The first step, in which a module that looks at all reads all, is apart. " +
				"Memory that is gone at each hook is an instance of its own for each: what a module has seen is in its memory, or in a run-local value, which is not gone. With nothing kept, each step reads all. " +
				"The ratio is of the processors' time, host and guest together, which what else the machine does hardly changes: the median of the turns, least and most in brackets.",
			command: []string{"history", "messages", "look.wasm"},
		},
		{
			title: "As the conversation of a run that is kept grows: a step writes the same",
			before: "A later step of a run, with a journal in SQLite and without, and what the journal is given in a step, with a conversation of so many messages of 1 KB before it. " +
				"The ratio is of the processors' time of the step that is kept.",
			command: []string{"history", "journal", "look.wasm"},
		},
		{
			title: "As a stream grows: a chunk costs the same",
			before: "A stream of so many chunks that the model gives as fast as they are taken, through modules that look for addresses in them, to who reads the run. " +
				"The ratio is of the processors' time.",
			command: []string{"history", "chunks", "five.wasm"},
		},
		{
			title: "As events become more: an event costs the same",
			before: "An event that a middleware makes, behind so many others of the same run, until it is with who reads the run; and behind how many of them a reader resumes, who asks for a hundred. " +
				"The ratio is of the processors' time.",
			command: []string{"history", "events", "look.wasm"},
		},
		{
			title:   "Reading and writing in the guest: four times as fast as encoding/json",
			command: []string{"codec", "codec.wasm"},
		},
		{
			title:   "Runs side by side",
			before:  "Five modules, and so many runs at once.",
			command: []string{"agents", "-concurrent", "-each", each, "five.wasm", "-"},
		},
		{title: "Memory: at most 2 GB for 1,000 runs", command: []string{"agents", "-memory", "five.wasm", "-"}},
	}
}
