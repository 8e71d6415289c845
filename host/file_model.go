package host

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"

	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/model/echo"
	"github.com/agent-runner/agent-runner/host/model/openai"
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

// first returns the model that answers unless it fails.
func (b *builder) first() (model.Model, error) {
	f := &b.file.Model
	if f.IsEcho() {
		return b.retry(echo.New()), nil
	}
	base, key := b.endpointOf(f)
	switch {
	case key == "" && f.APIKeyEnv != "":
		return nil, b.noKey("model", &f.Endpoint)
	case key == "" && base == "":
		return nil, errNoEndpoint(f.Name)
	}
	m, err := b.endpoint(base, key)
	if err != nil {
		return nil, agentfile.ErrorAt(b.file, "model.base_url", err)
	}
	return m, nil
}

// fallback returns the file's fallback i. Without a URL and a key of its own, it shares those of
// the first model.
func (b *builder) fallback(i int) (model.Model, error) {
	f, at := &b.file.Model.Fallbacks[i], fmt.Sprintf("model.fallbacks[%d]", i)
	if f.IsEcho() {
		return b.retry(echo.New()), nil
	}
	base, key := b.endpointOf(&b.file.Model)
	if f.BaseURL != "" {
		base, key = string(f.BaseURL), "" // never send a key to another endpoint
	}
	if f.APIKeyEnv != "" {
		if key = b.opts.Getenv(f.APIKeyEnv); key == "" {
			return nil, b.noKey(at, f)
		}
	}
	if key == "" && base == "" {
		return nil, agentfile.ErrorAt(b.file, at, errNoEndpoint(f.Name))
	}
	m, err := b.endpoint(base, key)
	if err != nil {
		return nil, agentfile.ErrorAt(b.file, at, err)
	}
	return m, nil
}

// endpointOf returns the URL and the key of m, from the file or the environment. Both may be "".
func (b *builder) endpointOf(m *agentfile.Model) (base, key string) {
	base = cmp.Or(string(m.BaseURL), b.opts.Getenv(agentfile.EnvBaseURL))
	return base, b.opts.Getenv(cmp.Or(m.APIKeyEnv, agentfile.EnvAPIKey))
}

// noKey returns the error for an unset environment variable in the field at of the file.
func (b *builder) noKey(at string, e *agentfile.Endpoint) error {
	err := fmt.Errorf("the environment variable %s, for the key of %s, is not set", e.APIKeyEnv, e.Name)
	return agentfile.ErrorAt(b.file, at+".api_key_env", err)
}

// errNoEndpoint returns the error for a model with neither a key nor a base URL. Without a key, the
// default endpoint would reject calls after it received the conversation.
func errNoEndpoint(name string) error {
	return fmt.Errorf(
		"no key for %s: set %s, name an endpoint that needs none as base URL, or use the offline model: %s",
		name, agentfile.EnvAPIKey, agentfile.Echo)
}

// endpoint returns a client for an endpoint, with retries.
func (b *builder) endpoint(base, key string) (model.Model, error) {
	o := &openai.Options{BaseURL: base, APIKey: key}
	if b.opts.GuardModels && base != b.opts.ModelURL {
		guard, err := b.guardedModels()
		if err != nil {
			return nil, err
		}
		o.HTTPClient = &http.Client{Transport: guard}
	}
	c, err := openai.New(o)
	if err != nil {
		return nil, err
	}
	b.closers = append(b.closers, c.Close)
	return b.retry(b.private(c)), nil
}

// retry retries the calls of m as the file says.
func (b *builder) retry(m model.Model) model.Model {
	retries := 0
	if r := b.file.Model.Retries; r != nil {
		retries = cmp.Or(*r, -1)
	}
	return model.WithRetry(m, &model.RetryOptions{MaxRetries: retries})
}

// private hides details of the endpoint in the errors of m, if ModelFailed is set.
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
