package abitable

import "strings"

// An Import describes a function of the host that modules can import.
type Import struct {
	Name string
	// Params has the names of the parameters, separated by spaces. The prefix * marks a pointer to
	// bytes that the host reads, and the prefix & a pointer to bytes that the host writes. A
	// parameter with the suffix :i64 is an i64; all others are i32.
	Params string
	// Result is "i32" or empty.
	Result string
	// Ring names the entries whose hooks wrap the call: "inner" (those further in), "outer" (those
	// further out), "operators" or "all". It is empty if no hook wraps the call.
	Ring string
	// Grant is the grant that the import requires. It is empty if the import requires none.
	Grant string
	// Fuel is the class of the import's price: "value" for a change of a run-local value, "record"
	// for a record in the journal, and empty for all others.
	Fuel string
	// Does describes what a module can do with the import, as an infinitive without "to".
	Does string
	// Since is the ABI version that introduced the import.
	Since int
}

const (
	text, key     = "*ptr len", "*key_ptr key_len"
	pair          = key + " *val_ptr val_len"
	i32           = "i32"
	value, record = "value", "record"
	store         = "store"
)

// imports describes each import, in the order of abi/README.md.
var imports = [...]Import{
	// name, parameters, result, ring, grant, fuel, permission, since
	{"read", "&ptr cap", i32, "", "", "", "read its input and the replies of host calls", 1},
	{"write", text, "", "", "", "", "answer", 1},
	{"next", text, i32, "inner", "", record, "run what it wraps, also several times or not at all", 1},
	{"next_stream", text, i32, "inner", "", record, "open the stream of what it wraps", 1},
	{"recv", "", i32, "", "", "", "read the stream of what it wraps", 1},
	{"send", text, i32, "outer", "", record, "send chunks of its own", 1},
	{"messages", "list from to", i32, "", "", "", "read the granted part of the conversation", 1},
	{"changed", "list revision:i64", i32, "", "", "", "learn where the conversation has changed", 1},
	{"local_get", key, i32, "", "", "", "read run-local values", 1},
	{"local_set", pair + " version:i64", i32, "", "", value, "store run-local values", 1},
	{"local_delete", key, i32, "", "", value, "delete run-local values", 1},
	{"local_add", key + " delta:i64", i32, "", "", value, "count in run-local values", 1},
	{"emit", text, i32, "", "", record, "send events of its own", 1},
	{"config", "", i32, "", "", "", "read its configuration", 1},
	{"log", "level *ptr len", "", "", "", record, "log", 1},
	{"model", text, i32, "operators", "model", record, "call a model", 1},
	{"tool", text, i32, all, "tool:NAME", record, "call tools of the agent", 1},
	{"http", text, i32, "", "http:HOST", "", "send HTTP requests", 1},
	{"store_get", key, i32, "", store, "", "read durable values", 1},
	{"store_set", pair + " version:i64 ttl:i64", i32, "", store, record, "store durable values", 1},
	{"store_delete", key, i32, "", store, record, "delete durable values", 1},
	{"store_add", key + " delta:i64", i32, "", store, record, "count in durable values", 1},
}

// Imports returns all imports, in the order of abi/README.md.
func Imports() []Import { return append([]Import{}, imports[:]...) }

// A Param is a parameter of an import.
type Param struct {
	Name  string
	Reads bool // a pointer to bytes that the host reads
	Fills bool // a pointer to bytes that the host writes
	Wide  bool // an i64
}

// Parameters returns the parameters of the import.
func (i *Import) Parameters() []Param {
	var out []Param
	for _, word := range strings.Fields(i.Params) {
		name, wide := strings.CutSuffix(word, ":i64")
		name, reads := strings.CutPrefix(name, "*")
		name, fills := strings.CutPrefix(name, "&")
		out = append(out, Param{name, reads, fills, wide})
	}
	return out
}

// Signature returns a letter for each parameter and each result: i for an i32, I for an i64.
func (i *Import) Signature() (params, results string) {
	for _, p := range i.Parameters() {
		if p.Wide {
			params += "I"
		} else {
			params += "i"
		}
	}
	if i.Result != "" {
		results = "i"
	}
	return params, results
}
