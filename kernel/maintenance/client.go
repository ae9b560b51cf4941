package maintenance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"pintle.dev/pintle/kernel/store"
)

// client is a Source over the API server.
type client struct {
	http *http.Client
	base string
}

// Dial gives the store of the kernel that cfg leads to. It does not connect yet.
func Dial(cfg *rest.Config) (Source, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.Timeout = 0 // a backup takes as long as it takes
	h, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("client of %s: %w", cfg.Host, err)
	}
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("address %q: %w", cfg.Host, err)
	}
	return &client{http: h, base: strings.TrimSuffix(base.String(), "/") + Path}, nil
}

func (c *client) Where() string { return "kernel at " + strings.TrimSuffix(c.base, Path) }

func (c *client) Close() error {
	c.http.CloseIdleConnections()
	return nil
}

// StatusError is a refusal of the kernel.
type StatusError struct{ Status metav1.Status }

func (e *StatusError) Error() string { return e.Status.Message }

// open asks and returns the body of a good answer.
func (c *client) open(ctx context.Context, method, what string, query url.Values, body any) (io.ReadCloser, error) {
	address := c.base + what
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	var in io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		in = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, address, in)
	if err != nil {
		return nil, err
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%w; is the kernel running? --data names its directory, --kubeconfig the way to it", err)
	}
	if res.StatusCode == http.StatusOK {
		return res.Body, nil
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	refused := &StatusError{}
	if json.Unmarshal(text, &refused.Status) != nil || refused.Status.Message == "" {
		refused.Status = metav1.Status{Code: int32(res.StatusCode), Message: fmt.Sprintf("%s: %s", res.Status, strings.TrimSpace(string(text)))}
	}
	switch res.StatusCode {
	case http.StatusForbidden, http.StatusUnauthorized:
		refused.Status.Message += "; this takes an administrator: cluster-admin, or a ClusterRole with nonResourceURLs " + Path + "*"
	case http.StatusNotFound:
		if refused.Status.Reason == "" || strings.Contains(refused.Status.Message, "could not find the requested resource") {
			refused.Status.Message += "; the server at " + c.base + " is not a Pintle kernel of this version"
		}
	}
	return nil, refused
}

func (c *client) ask(ctx context.Context, method, what string, query url.Values, body, out any) error {
	in, err := c.open(ctx, method, what, query, body)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := json.NewDecoder(in).Decode(out); err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	return nil
}

func (c *client) Stats(ctx context.Context) (out Stats, err error) {
	return out, c.ask(ctx, http.MethodGet, "stats", nil, nil, &out)
}

func (c *client) Compact(ctx context.Context, r CompactRequest) (out Compacted, err error) {
	return out, c.ask(ctx, http.MethodPost, "compact", nil, r, &out)
}

func (c *client) Get(ctx context.Context, key string, revision uint64) (out Value, err error) {
	return out, c.ask(ctx, http.MethodGet, "value", url.Values{"key": {key}, "revision": {strconv.FormatUint(revision, 10)}}, nil, &out)
}

func (c *client) History(ctx context.Context, key string, limit int) (out []Value, err error) {
	return out, c.ask(ctx, http.MethodGet, "history", url.Values{"key": {key}, "limit": {strconv.Itoa(limit)}}, nil, &out)
}

// Backup checks what comes before it hands it on, so that a backup that was written is one that can be restored.
func (c *client) Backup(ctx context.Context, r BackupRequest, w io.Writer, progress func(done, total int64)) (out Backup, err error) {
	query := url.Values{"history": {strconv.FormatBool(r.History)}}
	if r.Incremental {
		query.Set("since", strconv.FormatUint(r.Since, 10))
	}
	if r.Store != "" {
		query.Set("store", r.Store)
	}
	in, err := c.open(ctx, http.MethodGet, "backup", query, nil)
	if err != nil {
		return out, err
	}
	defer in.Close()
	tee := &counted{w: w}
	reader, err := store.NewBackupReader(io.TeeReader(in, tee), "from the "+c.Where())
	if err != nil {
		return out, errors.Join(err, tee.err)
	}
	out.BackupHeader = reader.Header()
	var done int64
	err = reader.Blocks(func(*store.Record) error {
		if done++; done%256 == 0 && progress != nil {
			progress(done, out.Estimate)
		}
		return tee.err
	})
	out.BackupEnd, out.Size = reader.End(), tee.n
	if tee.err != nil {
		return out, tee.err
	}
	return out, err
}

// counted counts what is written and keeps the first error apart from those of reading.
type counted struct {
	w   io.Writer
	n   int64
	err error
}

func (c *counted) Write(p []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	n, err := c.w.Write(p)
	c.n += int64(n)
	c.err = err
	return n, err
}

func (c *client) Verify(ctx context.Context, progress func(step string, done, total int64)) (store.VerifyReport, error) {
	in, err := c.open(ctx, http.MethodGet, "verify", nil, nil)
	if err != nil {
		return store.VerifyReport{}, err
	}
	defer in.Close()
	for lines := json.NewDecoder(in); ; {
		var l line
		if err := lines.Decode(&l); err != nil {
			return store.VerifyReport{}, fmt.Errorf("the verification was broken off: %w", err)
		}
		switch {
		case l.Error != "":
			return store.VerifyReport{}, errors.New(l.Error)
		case l.Report != nil:
			return *l.Report, nil
		case progress != nil:
			progress(l.Step, l.Done, l.Total)
		}
	}
}
