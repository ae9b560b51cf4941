package dynamic

import (
	"errors"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	webhookutil "k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"k8s.io/component-base/tracing"

	"pintle.dev/pintle/kernel/api/answerlimit"
)

// maxAnswer bounds the answer of a webhook: a patch can hold the largest object
// that a request may have, twice, in base64.
const maxAnswer = 16 << 20

const itself = "kubernetes"

// errItself: the server would ask itself, as its own administrator.
var errItself = errors.New("service default/kubernetes is this API server, which serves no webhook; name the service of the webhook")

// BoundedClients wraps the configurations of the clients of webhooks, of those that convert custom resources too:
// they follow no redirect, read no endless answer, and never ask this server itself. checks look at answers of that
// length besides. tracer may be nil.
func BoundedClients(tracer trace.TracerProvider, checks ...transport.WrapperFunc) webhookutil.AuthenticationInfoResolverWrapper {
	return func(delegate webhookutil.AuthenticationInfoResolver) webhookutil.AuthenticationInfoResolver {
		bound := func(cfg *rest.Config, err error) (*rest.Config, error) {
			if err != nil {
				return nil, err
			}
			cfg.Wrap(answerlimit.Wrap("the webhook", maxAnswer))
			for _, check := range checks {
				cfg.Wrap(check)
			}
			if tracer != nil {
				cfg.Wrap(tracing.WrapperFor(tracer))
			}
			return cfg, nil
		}
		return &webhookutil.AuthenticationInfoResolverDelegator{
			ClientConfigForFunc: func(hostPort string) (*rest.Config, error) {
				if strings.HasPrefix(hostPort, itself+"."+corev1.NamespaceDefault+".svc:") {
					return asksItself(), nil
				}
				return bound(delegate.ClientConfigFor(hostPort))
			},
			ClientConfigForServiceFunc: func(name, namespace string, port int) (*rest.Config, error) {
				if name == itself && namespace == corev1.NamespaceDefault {
					return asksItself(), nil
				}
				return bound(delegate.ClientConfigForService(name, namespace, port))
			},
		}
	}
}

// asksItself is the configuration of a client that says so instead.
func asksItself() *rest.Config {
	cfg := &rest.Config{}
	cfg.Wrap(func(http.RoundTripper) http.RoundTripper { return refusing{} })
	return cfg
}

type refusing struct{}

// RoundTrip implements http.RoundTripper.
func (refusing) RoundTrip(*http.Request) (*http.Response, error) { return nil, errItself }
