package horizontalpodautoscaler

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"
)

// fakeTargets are the targets' scales by namespace/name.
type fakeTargets struct {
	of     map[string]*autoscalingv1.Scale
	err    error // of find
	refuse error // of resize
	finds  int
	sizes  []int32 // that were asked for
}

func (f *fakeTargets) find(_ context.Context, namespace string, ref *autoscalingv2.CrossVersionObjectReference) (*autoscalingv1.Scale, schema.GroupResource, error) {
	f.finds++
	resource := schema.GroupResource{Group: "apps", Resource: "deployments"}
	if f.err != nil {
		return nil, resource, f.err
	}
	if s := f.of[namespace+"/"+ref.Name]; s != nil {
		return s.DeepCopy(), resource, nil
	}
	return nil, resource, apierrors.NewNotFound(resource, ref.Name)
}

func (f *fakeTargets) resize(_ context.Context, _ schema.GroupResource, scale *autoscalingv1.Scale, replicas int32) error {
	if f.refuse != nil {
		return f.refuse
	}
	f.sizes = append(f.sizes, replicas)
	s := f.of[scale.Namespace+"/"+scale.Name]
	s.Spec.Replicas, s.Status.Replicas = replicas, replicas
	return nil
}

// fakeSource answers what its fields say.
type fakeSource struct {
	samples map[string]sample // of resources and of custom metrics
	object  int64
	values  []int64
	err     error
	asked   int
}

func (f *fakeSource) resources(context.Context, corev1.ResourceName, string, labels.Selector, string) (map[string]sample, error) {
	f.asked++
	out := map[string]sample{}
	for k, v := range f.samples {
		out[k] = v
	}
	return out, f.err
}

func (f *fakeSource) ofPods(string, string, labels.Selector, labels.Selector) (map[string]sample, error) {
	return f.resources(nil, "", "", nil, "") //nolint:staticcheck // the context is not used
}

func (f *fakeSource) ofObject(string, string, *autoscalingv2.CrossVersionObjectReference, labels.Selector) (int64, error) {
	f.asked++
	return f.object, f.err
}

func (f *fakeSource) external(string, string, labels.Selector) ([]int64, error) {
	f.asked++
	return f.values, f.err
}

// world is a controller with its caches filled by hand.
type world struct {
	*autoscaler
	t         *testing.T
	client    *fake.Clientset
	namespace string
	targets   *fakeTargets
	source    *fakeSource
	events    *record.FakeRecorder
	hpaSet    cache.Indexer
	podSet    cache.Indexer
}

func newWorld(t *testing.T, config string) *world {
	t.Helper()
	c, err := readConfig([]byte(config))
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, namespace: "ns", client: fake.NewClientset(), targets: &fakeTargets{of: map[string]*autoscalingv1.Scale{}}, source: &fakeSource{}, events: record.NewFakeRecorder(1000)}
	shared := informers.NewSharedInformerFactory(w.client, 0)
	w.autoscaler = build(w.client, shared, w.targets, w.source, c, slog.New(slog.DiscardHandler))
	t.Cleanup(w.loop.Close)
	w.recorder = w.events
	w.hpaSet = shared.Autoscaling().V2().HorizontalPodAutoscalers().Informer().GetIndexer()
	w.podSet = shared.Core().V1().Pods().Informer().GetIndexer()
	return w
}

// target puts a deployment of the name with its pods, which have been ready for an hour
// and request a core.
func (w *world) target(name string, pods int) {
	w.t.Helper()
	w.targets.of[w.namespace+"/"+name] = &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec:       autoscalingv1.ScaleSpec{Replicas: int32(pods)},
		Status:     autoscalingv1.ScaleStatus{Replicas: int32(pods), Selector: "app=" + name},
	}
	for i := range pods {
		p := readyPod(fmt.Sprintf("%s-%d", name, i), name)
		p.Namespace = w.namespace
		w.pod(p)
	}
}

func (w *world) pod(p *corev1.Pod) {
	w.t.Helper()
	if err := w.podSet.Add(p); err != nil {
		w.t.Fatal(err)
	}
}

func readyPod(name, app string) *corev1.Pod {
	began := metav1.NewTime(time.Now().Add(-time.Hour))
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"app": app}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi"),
		}}}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &began, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: began}}},
	}
}

// use has every pod of the deployment use an amount of the metric.
func (w *world) use(name string, milli int64) {
	w.source.samples = map[string]sample{}
	for i := range w.targets.of["ns/"+name].Spec.Replicas {
		w.source.samples[fmt.Sprintf("%s-%d", name, i)] = sample{value: milli, at: time.Now(), window: time.Minute}
	}
}

// hpa puts an autoscaler, of which spec is the part after the target, as JSON.
func (w *world) hpa(name, target, spec string) *autoscalingv2.HorizontalPodAutoscaler {
	w.t.Helper()
	h := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	if err := json.Unmarshal([]byte(spec), &h.Spec); err != nil {
		w.t.Fatal(err)
	}
	h.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: target}
	if b := h.Spec.Behavior; b != nil { // as the API completes it
		for _, r := range []**autoscalingv2.HPAScalingRules{&b.ScaleUp, &b.ScaleDown} {
			if *r == nil {
				*r = &autoscalingv2.HPAScalingRules{}
			}
			if (*r).SelectPolicy == nil {
				(*r).SelectPolicy = ptr.To(autoscalingv2.MaxChangePolicySelect)
			}
			if (*r).Policies == nil {
				(*r).Policies = []autoscalingv2.HPAScalingPolicy{{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15}}
			}
		}
	}
	if _, err := w.client.AutoscalingV2().HorizontalPodAutoscalers("ns").Create(w.t.Context(), h, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	w.seen(h)
	return h
}

func (w *world) seen(h *autoscalingv2.HorizontalPodAutoscaler) {
	w.t.Helper()
	if err := w.hpaSet.Add(h); err != nil {
		w.t.Fatal(err)
	}
	w.changed(nil, h)
}

// look has the controller look once, and gives the autoscaler as it wrote it.
func (w *world) look(name string) (*autoscalingv2.HorizontalPodAutoscaler, error) {
	w.t.Helper()
	err := w.sync(w.t.Context(), "ns/"+name)
	got, fault := w.client.AutoscalingV2().HorizontalPodAutoscalers("ns").Get(w.t.Context(), name, metav1.GetOptions{})
	if fault != nil {
		w.t.Fatal(fault)
	}
	w.seen(got)
	return got, err
}

// told are the events since it was last asked.
func (w *world) told() string {
	var lines []string
	for {
		select {
		case e := <-w.events.Events:
			lines = append(lines, e)
		default:
			return strings.Join(lines, "\n")
		}
	}
}

func condition(h *autoscalingv2.HorizontalPodAutoscaler, kind autoscalingv2.HorizontalPodAutoscalerConditionType) string {
	for _, c := range h.Status.Conditions {
		if c.Type == kind {
			return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
		}
	}
	return ""
}

const cpuHalf = `{"minReplicas":1,"maxReplicas":10,"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":50}}}]}`

func ref() *autoscalingv2.CrossVersionObjectReference {
	return &autoscalingv2.CrossVersionObjectReference{APIVersion: "networking.k8s.io/v1", Kind: "Ingress", Name: "main"}
}

func metricName() *autoscalingv2.MetricIdentifier {
	return &autoscalingv2.MetricIdentifier{Name: "queue"}
}

func mustSelector(t *testing.T, text string) labels.Selector {
	t.Helper()
	s, err := labels.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
