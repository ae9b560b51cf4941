package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// Client asks a running kernel.
type Client struct{ rest *rest.RESTClient }

// Dial makes a client of the kernel that cfg leads to. It does not connect yet.
func Dial(cfg *rest.Config) (*Client, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.Timeout, cfg.QPS = 0, -1
	cfg.APIPath, cfg.GroupVersion = "/", &schema.GroupVersion{}
	cfg.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	cfg.ContentType, cfg.AcceptContentTypes = "application/json", "application/json"
	c, err := rest.RESTClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("client of %s: %w", cfg.Host, err)
	}
	return &Client{c}, nil
}

// Get asks the question at the parts of a path below Path, none of which may
// hold a slash, and fills in out.
// Refusals are status errors of apierrors.
func (c *Client) Get(ctx context.Context, query url.Values, out any, parts ...string) error {
	return decode(withQuery(c.rest.Get().AbsPath(place(parts)), query).Do(ctx), out)
}

// Post asks with a body.
func (c *Client) Post(ctx context.Context, body, out any, parts ...string) error {
	in, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return decode(c.rest.Post().AbsPath(place(parts)).Body(in).Do(ctx), out)
}

// Stream asks and returns the answer as it comes; the caller closes it.
func (c *Client) Stream(ctx context.Context, query url.Values, parts ...string) (io.ReadCloser, error) {
	out, err := withQuery(c.rest.Get().AbsPath(place(parts)), query).Stream(ctx)
	return out, helped(err)
}

func place(parts []string) string {
	return Path + strings.Join(parts, "/")
}

func withQuery(req *rest.Request, query url.Values) *rest.Request {
	for key, values := range query {
		for _, v := range values {
			req = req.Param(key, v)
		}
	}
	return req
}

func decode(res rest.Result, out any) error {
	if err := res.Error(); err != nil { // Raw's would not be what the server said
		return helped(err)
	}
	data, err := res.Raw()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	return nil
}

// helped adds to a refusal what an operator can do.
func helped(err error) error {
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		return fmt.Errorf("%w; this takes an administrator: cluster-admin, or a ClusterRole with nonResourceURLs %s*", err, Path)
	}
	return err
}
