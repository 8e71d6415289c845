// Package chunkjoin joins the chunks of a stream into a message or a tool result. However the chunks
// of a message are split, they join into the same content. The package imports abi and abijson, but
// no package of the host.
package chunkjoin
