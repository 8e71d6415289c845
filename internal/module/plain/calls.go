package plain

import (
	"context"

	"github.com/agent-runner/agent-runner/internal/module/invoke"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

func nextStream(ctx context.Context, inv *invoke.Invocation, g *sandbox.Guest, p []uint64) ([]byte, error) {
	reply, err := inv.NextStream(ctx, inv.Take(g, "next_stream", u32(p[0]), u32(p[1])))
	g.Tick()
	return reply, err
}

func recv(ctx context.Context, inv *invoke.Invocation, g *sandbox.Guest, _ []uint64) ([]byte, error) {
	reply, err := inv.Recv(ctx)
	g.Tick()
	return reply, err
}

func send(ctx context.Context, inv *invoke.Invocation, g *sandbox.Guest, p []uint64) ([]byte, error) {
	reply, err := inv.Send(ctx, inv.Take(g, "send", u32(p[0]), u32(p[1])))
	g.Tick()
	return reply, err
}

func model(ctx context.Context, inv *invoke.Invocation, g *sandbox.Guest, p []uint64) ([]byte, error) {
	reply, err := inv.Model(ctx, inv.Take(g, "model", u32(p[0]), u32(p[1])))
	g.Tick()
	return reply, err
}

func tool(ctx context.Context, inv *invoke.Invocation, g *sandbox.Guest, p []uint64) ([]byte, error) {
	reply, err := inv.Tool(ctx, inv.Take(g, "tool", u32(p[0]), u32(p[1])))
	g.Tick()
	return reply, err
}

func storeGet(ctx context.Context, inv *invoke.Invocation, g *sandbox.Guest, p []uint64) ([]byte, error) {
	key, err := inv.TakeKey(g, u32(p[0]), u32(p[1]))
	if err != nil {
		return nil, err
	}
	reply, err := inv.StoreGet(ctx, key)
	g.Tick()
	return reply, err
}

func storeSet(ctx context.Context, inv *invoke.Invocation, g *sandbox.Guest, p []uint64) ([]byte, error) {
	key, err := inv.TakeKey(g, u32(p[0]), u32(p[1]))
	if err != nil {
		return nil, err
	}
	reply, err := inv.StoreSet(ctx, key, inv.Take(g, "store_set", u32(p[2]), u32(p[3])), int64(p[4]), int64(p[5]))
	g.Tick()
	return reply, err
}

func storeDelete(ctx context.Context, inv *invoke.Invocation, g *sandbox.Guest, p []uint64) ([]byte, error) {
	key, err := inv.TakeKey(g, u32(p[0]), u32(p[1]))
	if err != nil {
		return nil, err
	}
	reply, err := inv.StoreDelete(ctx, key)
	g.Tick()
	return reply, err
}

func storeAdd(ctx context.Context, inv *invoke.Invocation, g *sandbox.Guest, p []uint64) ([]byte, error) {
	key, err := inv.TakeKey(g, u32(p[0]), u32(p[1]))
	if err != nil {
		return nil, err
	}
	reply, err := inv.StoreAdd(ctx, key, int64(p[2]))
	g.Tick()
	return reply, err
}

func sendHTTP(ctx context.Context, inv *invoke.Invocation, g *sandbox.Guest, p []uint64) ([]byte, error) {
	reply, err := inv.HTTP(ctx, inv.Take(g, "http", u32(p[0]), u32(p[1])))
	g.Tick()
	return reply, err
}
