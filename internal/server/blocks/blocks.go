package blocks

import (
	"context"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/store"
)

type (
	// DigestPath is embedded in inputs. It has the path parameter "digest".
	DigestPath struct {
		Digest string `path:"digest" pattern:"^(sha256:)?[0-9a-f]{64}$" doc:"The module's SHA-256 in hexadecimal."`
	}
	blockInput struct {
		DigestPath
		Body struct {
			Reason string `json:"reason" minLength:"1" maxLength:"1000" doc:"The reason. Tenants whose runs end because of the block see it."`
		}
	}
	blocksOutput struct {
		Body struct {
			Blocks []api.Block `json:"blocks" nullable:"false"`
			httpapi.ListOutput
		}
	}
)

// Routes registers the endpoints that block modules.
func (b *List) Routes(rt *httpapi.Router) {
	const tag, path = "blocks", "/v1/blocks/{digest}"
	httpapi.Register(rt, httpapi.Route{
		ID:      "block-module",
		Method:  "PUT",
		Path:    path,
		Scope:   httpapi.OperatorScope,
		Tag:     tag,
		Control: true,
		Summary: "Block a module",
		About:   "Within a second, no server of the database calls the module any more, for any tenant. Active runs that use it end.",
	}, b.block)
	httpapi.Register(rt, httpapi.Route{
		ID:      "unblock-module",
		Method:  "DELETE",
		Path:    path,
		Scope:   httpapi.OperatorScope,
		Tag:     tag,
		Summary: "Unblock a module",
	}, b.unblock)
	httpapi.Register(rt, httpapi.Route{
		ID:      "list-blocks",
		Method:  "GET",
		Path:    "/v1/blocks",
		Scope:   httpapi.OperatorRead,
		Tag:     tag,
		Summary: "List blocked modules",
		About:   httpapi.AboutLists,
	}, b.list)
}

func (b *List) block(ctx context.Context, _ *httpapi.Caller, in *blockInput) (*struct{}, error) {
	if err := b.store.Block(ctx, httpapi.TrimDigest(in.Digest), in.Body.Reason); err != nil {
		return nil, err
	}
	return nil, b.changed(ctx)
}

func (b *List) unblock(ctx context.Context, _ *httpapi.Caller, in *DigestPath) (*struct{}, error) {
	if err := b.store.Unblock(ctx, httpapi.TrimDigest(in.Digest)); err != nil {
		return nil, err
	}
	return nil, b.changed(ctx)
}

func (b *List) list(
	ctx context.Context, _ *httpapi.Caller, in *httpapi.LongListInput,
) (out *blocksOutput, err error) {
	out = &blocksOutput{}
	out.Body.Blocks, out.Body.ListOutput, err = httpapi.List(
		ctx, &in.CursorInput, in.Limit, httpapi.ListBlocks, store.Operator, b.store.Blocks, show)
	return out, err
}

func show(b *store.Block) api.Block {
	return api.Block{Digest: httpapi.DigestPrefix + b.Digest, Reason: b.Reason, Created: b.Created.UTC()}
}
