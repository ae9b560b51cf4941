package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// obstacle is a webhook that refuses every second write of each controller.
type obstacle struct {
	sync.Mutex
	asked map[string]int // by who writes what
}

func (o *obstacle) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
		http.Error(w, fmt.Sprint("no review: ", err), http.StatusBadRequest)
		return
	}
	answer := &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	if by, ok := strings.CutPrefix(review.Request.UserInfo.Username, "system:pintle:plugin:"); ok {
		q := review.Request
		what := strings.TrimSuffix(fmt.Sprintf("%s: %s %s/%s", by, q.Operation, q.Resource.Resource, q.SubResource), "/")
		o.Lock()
		o.asked[what]++
		if o.asked[what]%2 == 1 {
			answer.Allowed, answer.Result = false, &metav1.Status{Message: "every second write is refused"}
		}
		o.Unlock()
	}
	review.Request, review.Response = nil, answer
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review)
}

// calls are all so far, and who made them.
func (o *obstacle) calls() (sum int, by string) {
	o.Lock()
	defer o.Unlock()
	for _, n := range o.asked {
		sum += n
	}
	return sum, fmt.Sprint(o.asked)
}

// refusedObjects are workloads of each kind with a service.
const refusedObjects = `
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 3
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {automountServiceAccountToken: false, containers: [{name: c, image: simulated}]}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {automountServiceAccountToken: false, containers: [{name: c, image: simulated}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: work}
spec:
  parallelism: 3
  completions: 3
  completionMode: Indexed
  template:
    metadata: {labels: {app: work}}
    spec: {restartPolicy: Never, automountServiceAccountToken: false, containers: [{name: c, image: simulated}]}
`

// TestRefusedWrites: a webhook refuses every second write of all controllers. What they
// keep comes about all the same, with no pod too many, and goes as a whole; then they rest.
func TestRefusedWrites(t *testing.T) {
	t.Parallel()
	e := hollow(t, "refusedwrites", "", 2)
	ns := e.namespace(t)
	o := &obstacle{asked: map[string]int{}}
	server := httptest.NewTLSServer(o)
	t.Cleanup(server.Close)
	e.apply(t, ns, fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: obstacle}
webhooks:
- name: obstacle.example.com
  clientConfig: {url: %s, caBundle: %s}
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %s}}
  rules:
  - {apiGroups: ["", apps, batch, discovery.k8s.io], apiVersions: ["*"], operations: [CREATE, UPDATE, DELETE], resources: [pods, endpoints, endpointslices, controllerrevisions, replicasets, replicasets/status, deployments, deployments/status, statefulsets/status, daemonsets/status, jobs, jobs/status]}
  failurePolicy: Fail
  sideEffects: None
  admissionReviewVersions: [v1]
`, server.URL, base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})), ns))
	// In force where a controller's write is refused.
	tries := 0
	eventually(t, func(context.Context) error {
		tries++
		e.apply(t, ns, strings.Replace(simulated("probe", 0, ""), "image: simulated", fmt.Sprint("image: probe-", tries), 1))
		if n, _ := o.calls(); n == 0 {
			return errors.New("the webhook was not asked")
		}
		return nil
	})
	var seen lives
	seen.follow(t, e, ns)
	e.apply(t, ns, simulated("web", 4, "")+"---"+refusedObjects)
	const pods = 4 + 3 + 2 + 3
	here := func(want map[string]int) {
		t.Helper()
		eventually(t, func(ctx context.Context) error {
			list, err := e.client.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			have := map[string]int{}
			for i := range list.Items {
				if p := &list.Items[i]; isReady(p) == nil && p.DeletionTimestamp == nil {
					have[p.Labels["app"]+" "+p.Spec.Containers[0].Image]++
				}
			}
			slice, err := e.client.DiscoveryV1().EndpointSlices(ns).List(ctx, metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=web"})
			if err != nil {
				return err
			}
			for i := range slice.Items {
				have["endpoints"] += len(slice.Items[i].Endpoints)
			}
			if len(list.Items) != pods || fmt.Sprint(have) != fmt.Sprint(want) {
				return fmt.Errorf("%d pods, of which are ready %v; want %v", len(list.Items), have, want)
			}
			return nil
		})
	}
	// rests waits until no controller has written for a while.
	rests := func() {
		t.Helper()
		last, since := -1, time.Now()
		eventually(t, func(context.Context) error {
			n, by := o.calls()
			if n != last {
				last, since = n, time.Now()
			}
			if time.Since(since) < 3*time.Second {
				return fmt.Errorf("they go on writing: %s", by)
			}
			return nil
		})
	}
	here(map[string]int{"web simulated": 4, "db simulated": 3, "agent simulated": 2, "work simulated": 3, "endpoints": 4})
	rests()
	seen.Lock()
	if seen.made != pods {
		t.Errorf("%d pods were made, want %d", seen.made, pods)
	}
	seen.Unlock()
	for _, of := range []string{"deployment/web", "statefulset/db", "daemonset/agent"} {
		e.kubectl(t, "-n", ns, "set", "image", of, "c=simulated:2")
	}
	here(map[string]int{"web simulated:2": 4, "db simulated:2": 3, "agent simulated:2": 2, "work simulated": 3, "endpoints": 4})
	e.kubectl(t, "-n", ns, "rollout", "status", "deployment/web", "--timeout=110s")
	e.kubectl(t, "-n", ns, "rollout", "status", "statefulset/db", "--timeout=110s")
	e.kubectl(t, "-n", ns, "rollout", "status", "daemonset/agent", "--timeout=110s")
	rests()
	n, by := o.calls()
	t.Logf("%d writes: %s", n, by)
	if n > 600 { // 12 pods, each once anew
		t.Errorf("%d writes: %s", n, by)
	}
	e.kubectl(t, "-n", ns, "delete", "deployment/web", "deployment/probe", "statefulset/db", "daemonset/agent", "job/work", "service/web", "--wait=false")
	eventually(t, func(context.Context) error {
		if left := e.kubectl(t, "-n", ns, "get", "pods,replicasets,controllerrevisions,jobs,endpoints,endpointslices", "-o", "name"); left != "" {
			return fmt.Errorf("left behind:\n%s", left)
		}
		return nil
	})
	rests()
	if log := e.Log(1 << 20); strings.Contains(log, "panic") {
		t.Errorf("log:\n%s", log)
	}
}
