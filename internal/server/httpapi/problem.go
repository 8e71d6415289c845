package httpapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/refcache"
	"github.com/agent-runner/agent-runner/internal/sandbox"
	"github.com/agent-runner/agent-runner/internal/server/admission"
	"github.com/agent-runner/agent-runner/internal/store"
	"github.com/agent-runner/agent-runner/internal/store/database"
	"github.com/agent-runner/agent-runner/internal/store/keyring"
)

// A Problem is an error of a request, with additional data for the response and the log.
type Problem struct {
	api.Problem
	header http.Header
	cause  error // logged, not sent
}

// titles holds the status and the title of each code.
var titles = map[string]struct {
	status int
	title  string
}{
	api.CodeInvalid:      {http.StatusUnprocessableEntity, "Invalid request"},
	api.CodeUnauthorized: {http.StatusUnauthorized, "Unauthorized"},
	api.CodeForbidden:    {http.StatusForbidden, "Forbidden"},
	api.CodeNotFound:     {http.StatusNotFound, "Not found"},
	api.CodeMethod:       {http.StatusMethodNotAllowed, "Method not allowed"},
	api.CodeConflict:     {http.StatusConflict, "Conflict"},
	api.CodeTooLarge:     {http.StatusRequestEntityTooLarge, "Request body too large"},
	api.CodeMediaType:    {http.StatusUnsupportedMediaType, "Unsupported media type"},
	api.CodeRefused:      {http.StatusUnprocessableEntity, "Rejected"},
	api.CodeBlocked:      {http.StatusForbidden, "Blocked by the operator"},
	api.CodeQuota:        {http.StatusTooManyRequests, "Quota exceeded"},
	api.CodeInternal:     {http.StatusInternalServerError, "Internal server error"},
	api.CodeUnavailable:  {http.StatusServiceUnavailable, "Service unavailable"},
	api.CodeModelFailed:  {http.StatusBadGateway, "Model failed"},
	api.CodeRunFailed:    {http.StatusInternalServerError, "Run failed"},
}

// NewProblem returns a problem with a code and the code's status.
func NewProblem(code, format string, args ...any) *Problem {
	t := titles[code]
	return &Problem{
		Problem: api.Problem{
			Type:   api.ProblemType + code,
			Title:  t.title,
			Status: t.status,
			Detail: fmt.Sprintf(format, args...),
		},
	}
}

// NewQuotaProblem returns a problem with the name of an exceeded quota and the time until a retry.
func NewQuotaProblem(quota string, retry time.Duration, format string, args ...any) *Problem {
	p := NewProblem(api.CodeQuota, format, args...)
	p.Quota, p.RetryAfter = quota, retry
	return p
}

// WithCause sets the problem's cause, which is logged but not sent to the client.
func (p *Problem) WithCause(err error) *Problem {
	p.cause = err
	return p
}

// WithRetry sets the time after which the client should try again.
func (p *Problem) WithRetry(after time.Duration) *Problem {
	p.RetryAfter = after
	return p
}

// WithHeader sets headers of the response.
func (p *Problem) WithHeader(h http.Header) *Problem {
	p.header = h
	return p
}

// Error returns the problem's detail.
func (p *Problem) Error() string { return p.Detail }

// Unwrap returns the cause.
func (p *Problem) Unwrap() error { return p.cause }

// GetStatus implements [huma.StatusError].
func (p *Problem) GetStatus() int { return p.Status }

// GetHeaders implements [huma.HeadersError].
func (p *Problem) GetHeaders() http.Header {
	h := p.header.Clone()
	if h == nil {
		h = http.Header{}
	}
	if p.RetryAfter > 0 || p.Status == http.StatusTooManyRequests && h.Get("Retry-After") == "" {
		p.RetryAfter = max(p.RetryAfter, time.Second)
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(p.RetryAfter.Seconds()))))
	}
	return h
}

// ContentType implements [huma.ContentTypeFilter].
func (p *Problem) ContentType(string) string { return "application/problem+json" }

// imageRetry is the Retry-After if memory for a module's image is missing. Unused images are
// released after a minute.
const imageRetry = time.Minute

// quotaRetry is the Retry-After of quotas that do not recover with time, such as the number of
// stored modules.
const quotaRetry = time.Hour

// ProblemOf returns the problem that describes an error to the client. It reveals no details of
// unexpected errors.
func ProblemOf(err error) *Problem {
	var known *Problem
	var model *huma.ErrorModel
	var full *store.QuotaError
	var db *database.Error
	var size *http.MaxBytesError
	var busy *admission.QuotaError
	var thread *journal.ThreadBusyError
	var images *sandbox.ImageRoomError
	var panicked *refcache.PanicError
	var other interface{ Problem() *Problem }
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &panicked):
		return internalProblem(fmt.Errorf("%w\n%s", err, panicked.Stack))
	case errors.As(err, &images):
		p := NewProblem(
			api.CodeUnavailable,
			"no room for another module's instances: %v. Unused modules are released after a minute: end runs, or try again then",
			images,
		)
		p.RetryAfter, p.cause = imageRetry, err
		return p
	case errors.As(err, &other):
		return other.Problem()
	case errors.As(err, &model):
		return problemOfHuma(model)
	case errors.As(err, &full):
		return NewQuotaProblem(full.Quota, cmp.Or(full.RetryAfter, quotaRetry), "%v", full)
	case errors.As(err, &busy):
		return NewQuotaProblem(busy.Quota, busy.RetryAfter, "%v", busy)
	case errors.As(err, &size):
		return NewProblem(api.CodeTooLarge, "the body has more than %d bytes", size.Limit)
	case errors.Is(err, store.ErrNoTenant),
		errors.Is(err, store.ErrNoKey),
		errors.Is(err, store.ErrNoToken),
		errors.Is(err, store.ErrNoAgent),
		errors.Is(err, store.ErrNoAlias),
		errors.Is(err, store.ErrNoGateway),
		errors.Is(err, store.ErrNoReplay),
		errors.Is(err, store.ErrNoRollout),
		errors.Is(err, store.ErrNoSecret),
		errors.Is(err, store.ErrNoModule),
		errors.Is(err, store.ErrNoMember),
		errors.Is(err, store.ErrNoMessage),
		errors.Is(err, journal.ErrNoRun),
		errors.Is(err, journal.ErrNoThread):
		return NewProblem(api.CodeNotFound, "%v", err)
	case errors.As(err, &thread):
		return NewProblem(api.CodeConflict,
			"%v; wait for its end, cancel it, or send concurrency: queue or cancel", thread)
	case errors.Is(err, journal.ErrThreadChanged),
		errors.Is(err, store.ErrExists),
		errors.Is(err, store.ErrInUse),
		errors.Is(err, journal.ErrBusy),
		errors.Is(err, journal.ErrFinished),
		errors.Is(err, journal.ErrExists):
		return NewProblem(api.CodeConflict, "%v", err)
	case errors.Is(err, keyring.ErrNoKey):
		p := NewProblem(api.CodeUnavailable,
			"this server does not store secrets: its operator has not configured a key for them")
		p.cause = err
		return p
	case errors.As(err, &db) && (db.Retryable() || db.Kind == database.Full):
		p := NewProblem(api.CodeUnavailable, "the database is unavailable; try again")
		p.RetryAfter, p.cause = time.Second, err
		return p
	}
	return internalProblem(err)
}

// internalProblem returns the problem of an unexpected error, which it does not reveal.
func internalProblem(err error) *Problem {
	return NewProblem(api.CodeInternal,
		"the server failed to handle the request; its log has the reason under this request's id").WithCause(err)
}

// problemOfHuma converts a validation error of huma. It omits the invalid values, which may be
// secrets.
func problemOfHuma(m *huma.ErrorModel) *Problem {
	code := api.CodeInvalid
	for c, t := range titles {
		if t.status == m.Status && c != api.CodeRefused && c != api.CodeBlocked && c != api.CodeInvalid &&
			c != api.CodeRunFailed {
			code = c
		}
	}
	p := NewProblem(code, "%s", m.Detail)
	p.Status = m.Status
	if code == api.CodeInternal {
		p.cause = m
	}
	for _, e := range m.Errors {
		p.Errors = append(p.Errors, api.FieldError{Location: e.Location, Message: e.Message})
	}
	return p
}

// LogProblem returns the problem that describes err in the response to r, and adds the problem's
// cause to the request's log record.
func LogProblem(r *http.Request, err error) *Problem {
	p := *ProblemOf(err)
	p.Instance = instance(r)
	setCause(r, p.cause)
	return &p
}

// writeProblem responds with a problem outside of huma's handlers.
func writeProblem(w http.ResponseWriter, r *http.Request, err error) {
	p := LogProblem(r, err)
	for name, values := range p.GetHeaders() {
		w.Header()[name] = values
	}
	var body any = p
	contentType := p.ContentType("")
	switch {
	case openAIPaths.MatchString(r.URL.Path):
		body = p.ForOpenAI()
	case anthropicPaths.MatchString(r.URL.Path):
		body, contentType = p.forAnthropic(RequestID(r.Context())), "application/json"
	}
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(body)
}
