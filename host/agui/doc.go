// Package agui implements AG-UI (version 1), the protocol in which web front ends follow an agent's
// run. [NewEncoder] encodes a run's events, and [ParseInput] decodes the client's input.
//
//	in, err := agui.ParseInput(body)
//	enc := agui.NewEncoder(agui.Options{Thread: in.ThreadID, Run: in.RunID, Messages: in.Raw})
//	for event, err := range agent.RunFor(ctx, agent.Input{Messages: in.Messages}, enc) {
//		for _, e := range event.Encoded {
//			fmt.Fprintf(w, "data: %s\n\n", e)
//		}
//	}
//
// Middlewares can observe and change the encoded events in translate_before and translate_after;
// see [chain.Encoder].
package agui
