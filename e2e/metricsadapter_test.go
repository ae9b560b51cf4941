package e2e

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// adapter serves one external metric (queue) and one custom metric (rate, of services),
// with the value that it was last told.
type adapter struct{ value atomic.Pointer[string] }

func (a *adapter) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	path := strings.Split(strings.TrimPrefix(req.URL.Path, "/apis/"), "/")
	switch {
	case len(path) == 2: // discovery of a group version
		fmt.Fprintf(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"%s/%s","resources":[]}`, path[0], path[1])
	case len(path) == 5 && path[0] == "external.metrics.k8s.io" && path[4] == "queue":
		fmt.Fprintf(w, `{"kind":"ExternalMetricValueList","apiVersion":"external.metrics.k8s.io/v1beta1","items":[{"metricName":"queue","timestamp":"2026-01-01T00:00:00Z","value":%q}]}`, *a.value.Load())
	case len(path) == 7 && path[0] == "custom.metrics.k8s.io" && path[4] == "services" && path[5] == "main" && path[6] == "rate":
		fmt.Fprintf(w, `{"kind":"MetricValueList","apiVersion":"custom.metrics.k8s.io/v1beta2","items":[{"describedObject":{"kind":"Service","name":"main"},"metric":{"name":"rate"},"timestamp":"2026-01-01T00:00:00Z","value":%q}]}`, *a.value.Load())
	default:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
	}
}

// start serves the adapter behind the services and APIServices of a namespace.
func (a *adapter) start(t *testing.T, e *env, ns string) {
	t.Helper()
	cert, key, certPEM := servingFiles(t, t.TempDir(), "adapter."+ns+".svc")
	listener, err := net.Listen("tcp", net.JoinHostPort(machineAddress(t), "0"))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: a, ReadHeaderTimeout: time.Minute}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.ServeTLS(listener, cert, key) // until it is closed
	}()
	t.Cleanup(func() { server.Close(); <-done })
	host, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	e.apply(t, ns, fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: adapter}
spec: {ports: [{name: api, port: 443, targetPort: %s}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: adapter, labels: {kubernetes.io/service-name: adapter}}
addressType: IPv4
ports: [{name: api, port: %[1]s}]
endpoints: [{addresses: [%s]}]
`, port, host))
	for _, of := range []string{"v1beta1.external.metrics.k8s.io", "v1beta2.custom.metrics.k8s.io"} {
		version, group, _ := strings.Cut(of, ".")
		e.apply(t, ns, fmt.Sprintf("{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: %s}, spec: {group: %s, version: %s, groupPriorityMinimum: 100, versionPriority: 100, service: {namespace: %s, name: adapter}, caBundle: %s}}",
			of, group, version, ns, base64.StdEncoding.EncodeToString(certPEM)))
		eventually(t, func(context.Context) error {
			if out := e.kubectl(t, "get", "apiservice", of); !strings.Contains(out, "True") {
				return errors.New(out)
			}
			return nil
		})
	}
}

// TestMetricsAdapter: autoscalers of custom resources go by the external and custom
// metrics of an adapter. What it answers that is no number scales nothing, and a number
// beyond all no further than the maximum.
func TestMetricsAdapter(t *testing.T) {
	t.Parallel()
	e := hollow(t, "metricsadapter", "", 1)
	ns := e.namespace(t)
	in, _ := e.within(t, ns)
	a := &adapter{}
	told := func(value string) { a.value.Store(&value) }
	told("10")
	a.start(t, e, ns)
	e.apply(t, ns, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: workers.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: workers, singular: worker, kind: Worker}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {replicas: {type: integer}}}, status: {type: object, properties: {replicas: {type: integer}, selector: {type: string}}}}}}
    subresources: {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas, labelSelectorPath: .status.selector}}
`)
	in("wait", "--for=condition=Established", "crd/workers.example.com", "--timeout=120s")
	for name, metric := range map[string]string{
		"outside": "{type: External, external: {metric: {name: queue}, target: {type: AverageValue, averageValue: 10}}}",
		"object":  "{type: Object, object: {describedObject: {apiVersion: v1, kind: Service, name: main}, metric: {name: rate}, target: {type: AverageValue, averageValue: 10}}}",
	} {
		e.apply(t, ns, fmt.Sprintf(`
apiVersion: example.com/v1
kind: Worker
metadata: {name: %s}
spec: {replicas: 1}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: %[1]s}
spec: {scaleTargetRef: {apiVersion: example.com/v1, kind: Worker, name: %[1]s}, maxReplicas: 8, metrics: [%[2]s]}
`, name, metric))
		in("patch", "worker", name, "--subresource=status", "--type=merge", "-p", fmt.Sprintf(`{"status":{"replicas":1,"selector":"app=%s"}}`, name))
	}
	shows := func(name, path, want string) {
		t.Helper()
		eventually(t, func(context.Context) error {
			if r := e.try(t, "-n", ns, "get", "hpa", name, "-o", "jsonpath="+path); !strings.Contains(r.stdout, want) {
				return fmt.Errorf("%s has %q, want %q\n%s", name, r.stdout, want, r.stderr)
			}
			return nil
		})
	}
	size := func(want string) {
		t.Helper()
		for _, name := range []string{"outside", "object"} {
			eventually(t, func(context.Context) error {
				if out := in("get", "worker", name, "-o", "jsonpath={.spec.replicas}"); out != want {
					return fmt.Errorf("%s has %s replicas, want %s\n%s", name, out, want, in("describe", "hpa", name))
				}
				return nil
			})
		}
	}
	const active = `{.status.conditions[?(@.type=="ScalingActive")].reason}`
	for _, name := range []string{"outside", "object"} {
		shows(name, active, "ValidMetricFound")
	}
	told("30")
	size("3")
	told("NaN")
	shows("outside", active, "FailedGetExternalMetric")
	shows("object", active, "FailedGetObjectMetric")
	size("3")
	told(strings.Repeat("9", 300))
	size("8")
	for _, name := range []string{"outside", "object"} {
		shows(name, `{.status.conditions[?(@.type=="ScalingLimited")].reason}`, "TooManyReplicas")
	}
}
