package messages

import (
	"fmt"
	"strings"

	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// fieldNames are the fields whose values the gateway or modules must see.
var fieldNames = strings.Fields(`
	content content_block data delta description error id index input input_schema is_error max_tokens media_type message
	messages model name partial_json role signature source stop_reason stop_sequences stream system temperature text thread
	thinking tool_choice tool_use_id tools top_k top_p type url`)

// checkNames rejects a field whose name differs in case only from one that the gateway reads. Some
// endpoints and clients ignore case, so that such a field would hide its value from modules.
func checkNames(members []rawjson.Member) *fieldError {
	for _, m := range members {
		if known := wire.Misspelled(m.Name, fieldNames); known != "" {
			return problem("", fmt.Sprintf("the field %.64q must be written as %q", m.Name, known))
		}
	}
	return nil
}
