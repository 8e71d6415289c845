package exhaust

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"

	"github.com/agent-runner/agent-runner/internal/abitable"
)

// An Action is a host call that the module makes Times times in a hook, with Bytes bytes of text.
type Action struct {
	Do    string `json:"do"`
	Bytes int    `json:"bytes"`
	Times int    `json:"times"`
}

// A Module is the configuration of wasm-glutton.
type Module struct {
	Loop   bool                `json:"loop"`  // answers for the model, with calls of its own tool
	Calls  int                 `json:"calls"` // calls in each of these answers
	Ask    bool                `json:"ask"`   // its gate asks, so that the run pauses
	Answer map[string]int      `json:"answer,omitempty"`
	Hooks  map[string][]Action `json:"hooks,omitempty"`
}

// A Composition describes an agent of a hostile tenant, and the way in which clients follow its
// runs.
type Composition struct {
	Seed     uint64 `json:"seed"`
	Module   Module `json:"module"`
	Copies   int    `json:"copies"`    // entries of the module in the chain
	Model    string `json:"model"`     // the behavior of the model; see [model]
	SubAgent bool   `json:"sub_agent"` // the module wraps an agent that is a tool
	Client   string `json:"client"`    // how the runs are followed; see [clients]
	Runs     int    `json:"runs"`      // concurrent runs
	Quotas   bool   `json:"quotas"`    // the tenant has the quotas of docs/platform.md; otherwise none
	Small    bool   `json:"small"`     // runs reserve little memory for modules, so that many run concurrently
}

// actions lists the host calls with the largest sizes that the ABI allows and the maximum number of
// calls in a hook.
var actions = []Action{
	{"emit", 8 << 10, 255}, {"emit", 250 << 10, 8}, {"emit", 1, 255},
	{"log", 4 << 10, 256}, {"log", 1, 256},
	{"local_set", 1 << 20, 4}, {"local_set", 900, 4000}, {"local_add", 0, 4000},
	{"store_set", 256 << 10, 4}, {"store_set", 100, 500},
	{"messages", 0, 50},
	{"model", 64 << 10, 8}, {"tool", 64 << 10, 16},
	{"send", 1 << 20, 16}, {"send", 1, 4000},
	{"spin", 1000, 1},
}

// hooks lists the hooks in which the module makes host calls. answers lists those whose answers can
// contain text.
var hooks, answers = func() (calling, answering []string) {
	answering = []string{"before_model", "wrap_model", "on_chunk", "gate_tool", "call_tool", "after_agent"}
	for _, row := range abitable.Hooks() {
		if row.During != "load" {
			calling = append(calling, row.Name)
		}
		if row.Has(abitable.Edits) {
			answering = append(answering, row.Name)
		}
	}
	return calling, answering
}()

var (
	models  = []string{"calls", "long", "endless", "quick"}
	clients = []string{"none", "events", "agui", "chat"}
)

// Generate returns the composition for a seed. The same seed always has the same composition.
func Generate(seed uint64) *Composition {
	r := rand.New(rand.NewPCG(seed, 1))
	c := &Composition{
		Seed:     seed,
		Copies:   1 + r.IntN(3),
		Model:    pick(r, models),
		SubAgent: r.IntN(4) == 0,
		Client:   pick(r, clients),
		Runs:     1 + r.IntN(8),
		Quotas:   r.IntN(2) == 0,
		Module: Module{
			Loop:   r.IntN(3) > 0,
			Calls:  1 << r.IntN(6),
			Ask:    r.IntN(8) == 0,
			Answer: map[string]int{},
			Hooks:  map[string][]Action{},
		},
	}
	for range 1 + r.IntN(6) {
		hook := pick(r, hooks)
		c.Module.Hooks[hook] = append(c.Module.Hooks[hook], pick(r, actions))
	}
	for range r.IntN(4) {
		c.Module.Answer[pick(r, answers)] = 1 << (4 + r.IntN(18)) // 16 bytes to 2 MiB
	}
	if r.IntN(3) == 0 {
		pick(r, shapes)(c)
	}
	return c
}

// shapes change a composition so that it holds much memory in a way that random actions rarely
// reach.
var shapes = []func(*Composition){
	func(c *Composition) { // concurrent tools with the longest streams, through on_chunk hooks
		c.Module.Loop, c.Module.Calls, c.Copies = true, 64, 3
		c.Module.Hooks["call_tool"], c.Module.Hooks["on_chunk"] = []Action{
			{"send", 1 << 20, 16},
		}, []Action{
			{"local_add", 0, 1},
		}
		c.Module.Answer["on_chunk"] = 1 << 20
	},
	func(c *Composition) { // large streams of the model, which each module reads and sends again
		c.Model, c.Module.Loop, c.Copies = "endless", false, 3
		c.Module.Answer["wrap_model"], c.Module.Answer["on_chunk"] = 256<<10, 64<<10
	},
	func(c *Composition) { // model calls by concurrent tools, with long answers
		c.Model, c.Module.Loop, c.Module.Calls = "long", true, 32
		c.Module.Hooks["call_tool"] = []Action{{"model", 1 << 20, 64}}
	},
	func(c *Composition) { // staged writes and large results in many concurrent calls
		c.Module.Loop, c.Module.Calls, c.Copies = true, 64, 3
		c.Module.Hooks["call_tool"], c.Module.Hooks["wrap_tool_call"] = []Action{
			{"local_set", 1 << 20, 4},
		}, []Action{
			{"local_set", 1 << 20, 4},
		}
		c.Module.Answer["call_tool"] = 2 << 20
	},
	func(c *Composition) { // many concurrent sub-agents
		c.Model, c.SubAgent, c.Module.Loop, c.Client = "long", true, false, "agui"
		c.Module.Answer["before_model_rewrite_state"], c.Module.Answer["after_tools"] = 1<<20, 1<<20
	},
	func(c *Composition) { // questions with large payloads
		c.Module.Loop, c.Module.Calls, c.Module.Ask = true, 64, true
		c.Module.Answer["gate_tool"] = 1 << 20
	},
}

func pick[T any](r *rand.Rand, of []T) T { return of[r.IntN(len(of))] }

// agentFile returns the composition's agent file, as JSON, which is valid YAML.
func (c *Composition) agentFile() []byte {
	var chain []any
	limits := map[string]any{"max_steps": 1000}
	memory := "64MiB"
	if c.Small {
		memory, limits["parallel"] = "16MiB", 1
	}
	for i := range c.Copies {
		chain = append(
			chain,
			map[string]any{
				"limits":   map[string]any{"memory": memory},
				"name":     fmt.Sprint("glutton-", i),
				"module":   "glutton",
				"on_fault": "skip",
				"grants":   []string{"read:all", "model", "store", "tool:*"},
				"config":   c.Module,
			},
		)
	}
	file := map[string]any{"model": map[string]any{"name": c.Model}, "middlewares": chain, "limits": limits}
	if c.SubAgent {
		file = map[string]any{"model": map[string]any{"name": "calls"}, "limits": limits,
			"agents": []any{map[string]any{"name": "inner", "description": "Does it.", "agent": file}}}
	}
	return encode(file)
}

// String returns the composition as JSON.
func (c *Composition) String() string { return string(encode(c)) }

// encode returns v as JSON. It panics if v cannot be encoded.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
