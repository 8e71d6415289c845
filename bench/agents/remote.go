package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"time"

	extism "github.com/extism/go-sdk"
	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/bench/internal/five"
	"github.com/agent-runner/agent-runner/host"
)

// serveAs is the name of the environment variable that makes a process a side-car or a plug-in.
const serveAs = "AGENT_BENCH_SERVE"

// serve runs the side-car or plug-in that the environment variable serveAs names. It returns false
// at once if the variable names none.
func serve() bool {
	switch os.Getenv(serveAs) {
	case "http":
		serveHTTP(five.Usual)
	case "http-fast":
		serveHTTP(five.Fast)
	case "plugin":
		goplugin.Serve(
			&goplugin.ServeConfig{
				HandshakeConfig: handshake,
				Plugins:         goplugin.PluginSet{"five": grpcPlugin{}},
				GRPCServer:      goplugin.DefaultGRPCServer,
				Logger:          hclog.NewNullLogger(),
			},
		)
	default:
		return false
	}
	return true
}

// inExtism returns a peer with the five middlewares as plug-ins of the Extism SDK. They are
// compiled once, and each has one warm instance. A timeout of 0 means none. The codec is "usual"
// for Go's JSON, or "fast" for this project's. A call takes a lock, since an instance serves one
// call at a time.
func inExtism(
	ctx context.Context,
	h *host.Host,
	name, path string,
	timeout time.Duration,
	codec string,
	conversation []abi.Message,
) (*peer, error) {
	wasm, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	compiled, err := extism.NewCompiledPlugin(
		ctx,
		extism.Manifest{
			Wasm:    []extism.Wasm{extism.WasmData{Data: wasm}},
			Timeout: uint64(timeout.Milliseconds()),
			Config:  map[string]string{"codec": codec},
		},
		extism.PluginConfig{EnableWasi: true},
		nil,
	)
	if err != nil {
		return nil, err
	}
	type locked struct {
		sync.Mutex
		*extism.Plugin
	}
	plugins := map[string]*locked{}
	for _, e := range entries {
		p, err := compiled.Instance(ctx, extism.PluginInstanceConfig{})
		if err != nil {
			return nil, err
		}
		plugins[e.name] = &locked{Plugin: p}
	}
	p, err := forwarded(
		ctx,
		name,
		h,
		conversation,
		func(ctx context.Context, middleware, hook string, input []byte) ([]byte, error) {
			p := plugins[middleware]
			p.Lock()
			defer p.Unlock()
			_, out, err := p.CallWithContext(ctx, hook, input)
			return bytes.Clone(out), err
		},
	)
	if err != nil {
		return nil, err
	}
	p.close = func() {
		for _, one := range plugins {
			_ = one.Close(context.Background())
		}
		_ = compiled.Close(context.Background())
	}
	p.size, err = sizeOf(path)
	return p, err
}

// sideCars returns a peer whose middlewares are HTTP services. Each is another process of this
// program, for which the environment variable serveAs is set to as.
func sideCars(ctx context.Context, h *host.Host, name, as string, conversation []abi.Message) (*peer, error) {
	urls, stops, processes := map[string]string{}, []func(){}, []int{}
	for _, e := range entries {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), serveAs+"="+as)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			return nil, err
		}
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		stops, processes = append(
			stops,
			func() { _ = cmd.Process.Kill(); _ = cmd.Wait() },
		), append(
			processes,
			cmd.Process.Pid,
		)
		var address string
		if _, err := fmt.Fscanln(out, &address); err != nil {
			return nil, err
		}
		urls[e.name] = "http://" + address + "/"
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	p, err := forwarded(
		ctx,
		name,
		h,
		conversation,
		func(ctx context.Context, middleware, hook string, input []byte) ([]byte, error) {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, urls[middleware]+hook, bytes.NewReader(input))
			if err != nil {
				return nil, err
			}
			req.Header.Set("Content-Type", "application/json")
			res, err := client.Do(req)
			if err != nil {
				return nil, err
			}
			defer res.Body.Close()
			out, err := io.ReadAll(res.Body)
			if err == nil && res.StatusCode != http.StatusOK {
				err = fmt.Errorf("%s: %s", res.Status, out)
			}
			return out, err
		},
	)
	if err != nil {
		return nil, err
	}
	p.processes, p.close = processes, func() {
		for _, stop := range stops {
			stop()
		}
	}
	return p, nil
}

func serveHTTP(codec five.Codec) {
	remote := five.NewRemote(codec)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(l.Addr())
	err = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		in, err := io.ReadAll(r.Body)
		if err == nil {
			var out []byte
			if out, err = remote.Call(r.URL.Path[1:], in); err == nil {
				_, _ = w.Write(out)
				return
			}
		}
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}))
	fmt.Fprintln(os.Stderr, err)
}

// plugins returns a peer whose middlewares are processes of hashicorp/go-plugin, called over gRPC.
func plugins(ctx context.Context, h *host.Host, name string, conversation []abi.Message) (*peer, error) {
	clients, stops, processes := map[string]*grpc.ClientConn{}, []func(){}, []int{}
	for _, e := range entries {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), serveAs+"=plugin")
		c := goplugin.NewClient(
			&goplugin.ClientConfig{HandshakeConfig: handshake, Plugins: goplugin.PluginSet{"five": grpcPlugin{}}, Cmd: cmd,
				AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC}, Logger: hclog.NewNullLogger()},
		)
		stops = append(stops, c.Kill)
		rpc, err := c.Client()
		if err != nil {
			return nil, err
		}
		raw, err := rpc.Dispense("five")
		if err != nil {
			return nil, err
		}
		clients[e.name] = raw.(*grpc.ClientConn)
		processes = append(processes, c.ReattachConfig().Pid)
	}
	p, err := forwarded(
		ctx,
		name,
		h,
		conversation,
		func(ctx context.Context, middleware, hook string, input []byte) ([]byte, error) {
			var out wrapperspb.BytesValue
			err := clients[middleware].Invoke(
				ctx,
				"/five.Five/Call",
				wrapperspb.Bytes(append(append([]byte(hook), 0), input...)),
				&out,
			)
			return out.GetValue(), err
		},
	)
	if err != nil {
		return nil, err
	}
	p.processes, p.close = processes, func() {
		for _, stop := range stops {
			stop()
		}
	}
	return p, nil
}

var handshake = goplugin.HandshakeConfig{ProtocolVersion: 1, MagicCookieKey: "AGENT_BENCH", MagicCookieValue: "five"}

type grpcPlugin struct {
	goplugin.NetRPCUnsupportedPlugin
}

func (grpcPlugin) GRPCClient(_ context.Context, _ *goplugin.GRPCBroker, c *grpc.ClientConn) (any, error) {
	return c, nil
}

// GRPCServer registers the service without generated code. The service has one method, with bytes
// as input and output.
func (grpcPlugin) GRPCServer(_ *goplugin.GRPCBroker, s *grpc.Server) error {
	remote := five.NewRemote(five.Fast)
	s.RegisterService(
		&grpc.ServiceDesc{ServiceName: "five.Five", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{MethodName: "Call",
			Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
				var in wrapperspb.BytesValue
				if err := decode(&in); err != nil {
					return nil, err
				}
				hook, input, _ := bytes.Cut(in.Value, []byte{0})
				out, err := remote.Call(string(hook), input)
				return wrapperspb.Bytes(out), err
			}}}},
		nil,
	)
	return nil
}
