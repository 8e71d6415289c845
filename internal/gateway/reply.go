package gateway

import (
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/weave"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// A reply writes the answer of a request to the client: events of a stream as the weaver releases them,
// or one body. It is safe for concurrent use.
type reply struct {
	w http.ResponseWriter

	mu     sync.Mutex
	header http.Header // of the upstream's answer
	stream wire.Stream
	weaver *weave.Weaver // nil if the answer is not streamed
	began  bool          // the client has got the header
	err    error         // the first failure to write to the client
}

// restart begins a streamed answer, in place of an earlier one. It returns false if the client has
// received a part of the earlier one.
func (p *reply) restart(s wire.Stream, o weave.Options) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.weaver != nil && p.weaver.Sent() {
		return false
	}
	p.stream, p.weaver = s, weave.New(s, o)
	return true
}

// answeredBy sets the header of the upstream's answer. The client's header is a copy of it.
func (p *reply) answeredBy(h http.Header) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.header = h
}

// isStreamed reports whether the answer is streamed.
func (p *reply) isStreamed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.weaver != nil
}

// hasBegun reports whether the client has received the header.
func (p *reply) hasBegun() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.began
}

// delivered reports whether the client has received a part of a streamed answer.
func (p *reply) delivered() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.weaver != nil && p.weaver.Sent()
}

// isComplete reports whether the upstream's stream is complete.
func (p *reply) isComplete() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stream.Complete()
}

// response returns the upstream's streamed answer so far.
func (p *reply) response() *abi.Response {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stream.Response()
}

// receive takes an event of the upstream, and returns its chunks and the bytes that wait for modules.
func (p *reply) receive(event []byte) (chunks []abi.Chunk, held int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	items, err := p.stream.Decode(event)
	if err != nil {
		return nil, 0, err
	}
	out, chunks, err := p.weaver.Receive(nil, items)
	p.write(out)
	if err == nil {
		err = p.err
	}
	return chunks, p.weaver.Held(), err
}

// leave takes chunks that left the chain.
func (p *reply) leave(chunks []abi.Chunk) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.write(p.weaver.Leave(nil, chunks))
	return p.err
}

// finish sends the rest of a streamed answer: res is the answer that left the chain, and denied has the texts that
// replace denied calls, by ID.
func (p *reply) finish(res *abi.Response, denied map[string]string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	rest, err := p.weaver.Finish(nil, res, denied)
	if err != nil {
		return err
	}
	p.write(rest)
	return nil
}

// keepAlive sends the client of a streamed answer a ping at each interval. The caller calls stop, after
// which no ping is sent.
func (p *reply) keepAlive(interval time.Duration, ping []byte) (stop func()) {
	if !p.isStreamed() {
		return func() {}
	}
	done := make(chan struct{})
	var pinging sync.WaitGroup
	pinging.Go(func() {
		t := time.NewTicker(interval)
		defer t.Stop()
		for {
			select {
			case <-done:
				return
			case <-t.C:
			}
			p.mu.Lock()
			p.write(ping)
			p.mu.Unlock()
		}
	})
	return func() {
		close(done)
		pinging.Wait()
	}
}

// fail ends a streamed answer with an error.
func (p *reply) fail(err *wire.Error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.write(p.stream.Error(nil, err))
}

// whole sends an answer that is not streamed.
func (p *reply) whole(body []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.began = true
	p.head("application/json")
	p.w.WriteHeader(http.StatusOK)
	_, p.err = p.w.Write(body)
}

// pass sends a refusal of the upstream unchanged.
func (p *reply) pass(r *refusal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.began = true
	passHeaders(p.w.Header(), r.header)
	p.w.WriteHeader(r.status)
	_, p.err = p.w.Write(r.body)
}

// eventStream is the media type of streamed answers.
const eventStream = "text/event-stream"

func isEventStream(res *http.Response) bool {
	return strings.HasPrefix(res.Header.Get("Content-Type"), eventStream)
}

// writeTimeout limits the time in which a client reads one part of an answer.
const writeTimeout = time.Minute

// write sends a part of a streamed answer. The caller holds the lock.
func (p *reply) write(b []byte) {
	if len(b) == 0 || p.err != nil {
		return
	}
	control := http.NewResponseController(p.w)
	if !p.began {
		p.began = true
		p.head(eventStream)
		p.w.WriteHeader(http.StatusOK)
	}
	_ = control.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, p.err = p.w.Write(b); p.err == nil {
		p.err = control.Flush()
	}
}

// head sets the header of an answer: the upstream's, if it answered. The caller holds the lock.
func (p *reply) head(contentType string) {
	passHeaders(p.w.Header(), p.header)
	p.w.Header().Del("Content-Encoding")
	p.w.Header().Set("Content-Type", contentType)
	if kind := p.header.Get("Content-Type"); strings.HasPrefix(kind, contentType) {
		p.w.Header().Set("Content-Type", kind)
	}
}
