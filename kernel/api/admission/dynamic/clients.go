package dynamic

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	webhookutil "k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/tracing"
)

// maxAnswer bounds the answer of a webhook: a patch can hold the largest object
// that a request may have, twice, in base64.
const maxAnswer = 16 << 20

const itself = "kubernetes"

// errItself: the server would ask itself, as its own administrator.
var errItself = errors.New("service default/kubernetes is this API server, which serves no webhook; name the service of the webhook")

// boundedClients wraps the configurations of webhooks' clients.
func boundedClients(tracer trace.TracerProvider) webhookutil.AuthenticationInfoResolverWrapper {
	return func(delegate webhookutil.AuthenticationInfoResolver) webhookutil.AuthenticationInfoResolver {
		bound := func(cfg *rest.Config, err error) (*rest.Config, error) {
			if err != nil {
				return nil, err
			}
			cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return bounded{next} })
			if tracer != nil {
				cfg.Wrap(tracing.WrapperFor(tracer))
			}
			return cfg, nil
		}
		return &webhookutil.AuthenticationInfoResolverDelegator{
			ClientConfigForFunc: func(hostPort string) (*rest.Config, error) {
				if strings.HasPrefix(hostPort, itself+"."+corev1.NamespaceDefault+".svc:") {
					return nil, errItself
				}
				return bound(delegate.ClientConfigFor(hostPort))
			},
			ClientConfigForServiceFunc: func(name, namespace string, port int) (*rest.Config, error) {
				if name == itself && namespace == corev1.NamespaceDefault {
					return nil, errItself
				}
				return bound(delegate.ClientConfigForService(name, namespace, port))
			},
		}
	}
}

// bounded is a transport that refuses redirects and bounds the size of an answer.
type bounded struct{ next http.RoundTripper }

// WrappedRoundTripper lets the transport below be found.
func (b bounded) WrappedRoundTripper() http.RoundTripper { return b.next }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := b.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode >= 300 && res.StatusCode < 400 {
		res.Body.Close()
		return nil, fmt.Errorf("the webhook answered with a redirect (%d) to %q; redirects are not followed", res.StatusCode, res.Header.Get("Location"))
	}
	if res.ContentLength > maxAnswer {
		res.Body.Close()
		return nil, errTooLarge
	}
	res.Body = &boundedBody{res.Body, maxAnswer}
	return res, nil
}

var errTooLarge = fmt.Errorf("the webhook answered with more than %d bytes", maxAnswer)

type boundedBody struct {
	io.ReadCloser
	left int64
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		if n, err := b.ReadCloser.Read(make([]byte, 1)); n == 0 {
			return 0, err
		}
		return 0, errTooLarge
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
