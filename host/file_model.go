package host

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/model/echo"
	"github.com/agent-runner/agent-runner/host/model/messages"
	"github.com/agent-runner/agent-runner/host/model/openai"
	"github.com/agent-runner/agent-runner/host/model/responses"
	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/egress"
	"github.com/agent-runner/agent-runner/internal/modelfailure"
)

// endpoints returns the file's model, with its fallbacks. It fails if the file names no model, or
// if the environment lacks a key that a model needs.
func (b *builder) endpoints() (model.Model, error) {
	f := &b.file.Model
	if f.Name == "" {
		return nil, agentfile.ErrorAt(b.file, "model", errors.New("the agent has no model: name one, model: {name: …}"))
	}
	first, err := b.first()
	if err != nil {
		return nil, err
	}
	choices := []model.Choice{{Model: first}}
	for i := range f.Fallbacks {
		m, err := b.fallback(i)
		if err != nil {
			return nil, err
		}
		choices = append(choices, model.Choice{Model: m, Name: f.Fallbacks[i].Name})
	}
	if len(choices) == 1 {
		return first, nil
	}
	return model.WithFallback(choices, nil), nil
}

// first returns the file's model without its fallbacks.
func (b *builder) first() (model.Model, error) {
	f := &b.file.Model
	if f.IsEcho() {
		return b.retry(echo.New()), nil
	}
	base, key := b.endpointOf(&f.Endpoint, f.Provider)
	switch {
	case key == "" && f.APIKeyEnv != "":
		return nil, b.noKey("model", &f.Endpoint)
	case key == "" && base == "":
		return nil, errNoEndpoint(f.Name, f.Provider)
	}
	m, err := b.endpoint(f.Provider, base, key)
	if err != nil {
		return nil, agentfile.ErrorAt(b.file, "model.base_url", err)
	}
	return m, nil
}

// fallback returns fallback i of the file. A fallback without a URL and a key has those of the first model if both
// providers have the same environment variables. Otherwise it has those that the environment variables of its own
// provider set.
func (b *builder) fallback(i int) (model.Model, error) {
	f, at := &b.file.Model.Fallbacks[i], fmt.Sprintf("model.fallbacks[%d]", i)
	if f.IsEcho() {
		return b.retry(echo.New()), nil
	}
	first := &b.file.Model.Endpoint
	provider := cmp.Or(f.Provider, first.Provider)
	base, key := b.endpointOf(first, first.Provider)
	if _, own := provider.Env(); own != baseEnv(first.Provider) {
		base, key = b.endpointOf(&agentfile.Endpoint{}, provider)
	}
	if f.BaseURL != "" {
		base, key = string(f.BaseURL), "" // never send a key to another endpoint
	}
	if f.APIKeyEnv != "" {
		if key = b.opts.Getenv(f.APIKeyEnv); key == "" {
			return nil, b.noKey(at, f)
		}
	}
	if key == "" && base == "" {
		return nil, agentfile.ErrorAt(b.file, at, errNoEndpoint(f.Name, provider))
	}
	m, err := b.endpoint(provider, base, key)
	if err != nil {
		return nil, agentfile.ErrorAt(b.file, at, err)
	}
	return m, nil
}

func baseEnv(p agentfile.Provider) string {
	_, base := p.Env()
	return base
}

// endpointOf returns the URL and the key of e, from the file or the environment. Both may be "".
func (b *builder) endpointOf(e *agentfile.Endpoint, p agentfile.Provider) (base, key string) {
	keyEnv, baseEnv := p.Env()
	return cmp.Or(string(e.BaseURL), b.opts.Getenv(baseEnv)), b.opts.Getenv(cmp.Or(e.APIKeyEnv, keyEnv))
}

// noKey returns the error for an unset environment variable in the field at of the file.
func (b *builder) noKey(at string, e *agentfile.Endpoint) error {
	err := fmt.Errorf("the environment variable %s, for the key of %s, is not set", e.APIKeyEnv, e.Name)
	return agentfile.ErrorAt(b.file, at+".api_key_env", err)
}

// errNoEndpoint returns the error for a model with neither a key nor a base URL. Such a model is an
// error because the provider's own endpoint would receive the conversation before it rejects the
// missing key.
func errNoEndpoint(name string, p agentfile.Provider) error {
	key, _ := p.Env()
	return fmt.Errorf(
		"no key for %s: set %s, name an endpoint that needs none as base URL, or use the offline model: %s",
		name, key, agentfile.Echo)
}

// endpoint returns a client for an endpoint, with retries.
func (b *builder) endpoint(p agentfile.Provider, base, key string) (model.Model, error) {
	o := model.ClientOptions{BaseURL: base, APIKey: key}
	if b.opts.GuardModels && base != "" && !slices.Contains(b.opts.ModelURLs, base) {
		guard, err := b.guardedModels()
		if err != nil {
			return nil, err
		}
		o.HTTPClient = &http.Client{Transport: guard}
	}
	c, err := newClient(p, o)
	if err != nil {
		return nil, err
	}
	b.closers = append(b.closers, c.Close)
	return b.retry(b.private(c)), nil
}

// newClient returns a client of a provider's API.
func newClient(p agentfile.Provider, o model.ClientOptions) (model.Client, error) {
	switch p {
	case agentfile.ProviderResponses:
		return responses.New(&o)
	case agentfile.ProviderMessages:
		return messages.New(&o)
	default:
		return openai.New(&o)
	}
}

// retry returns m with the retries that the file sets.
func (b *builder) retry(m model.Model) model.Model {
	retries := 0
	if r := b.file.Model.Retries; r != nil {
		retries = cmp.Or(*r, -1)
	}
	return model.WithRetry(m, &model.RetryOptions{MaxRetries: retries})
}

// private returns m or, if ModelFailed is set, a model that hides details of the endpoint in
// errors.
func (b *builder) private(m model.Model) model.Model {
	if b.opts.ModelFailed == nil {
		return m
	}
	return modelfailure.Hide(m, b.opts.ModelFailed)
}

// guardedModels returns the transport for models chosen by an untrusted file. It connects only to
// public addresses and those that Network allows.
func (b *builder) guardedModels() (http.RoundTripper, error) {
	o := &egress.Options{}
	if b.opts.Network != nil {
		o.Private, o.Resolver, o.RootCAs = b.opts.Network.Private, b.opts.Network.Resolver, b.opts.Network.RootCAs
	}
	c, err := egress.New(o)
	if err != nil {
		return nil, err
	}
	b.closers = append(b.closers, c.Close)
	return c.Guard(), nil
}
