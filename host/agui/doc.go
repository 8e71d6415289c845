// Package agui speaks AG-UI (version 1), the protocol in which web front ends
// follow an agent's run: an [Encoder] puts a run's events into it, and
// [ParseInput] reads what such a client sends.
//
//	in, err := agui.ParseInput(body)
//	enc := agui.NewEncoder(agui.Options{Thread: in.ThreadID, Run: in.RunID, Messages: in.Raw})
//	for event, err := range agent.RunFor(ctx, agent.Input{Messages: in.Messages}, enc) {
//		for _, e := range event.Encoded {
//			fmt.Fprintf(w, "data: %s\n\n", e)
//		}
//	}
//
// Middlewares see and change what clients are sent in translate_before and
// translate_after; see [chain.Encoder].
package agui
