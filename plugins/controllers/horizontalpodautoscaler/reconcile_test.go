package horizontalpodautoscaler

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	twoMetrics = `{"maxReplicas":10,"metrics":[
		{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":50}}},
		{"type":"External","external":{"metric":{"name":"queue"},"target":{"type":"Value","value":"1"}}}]}`
	queueToZero = `{"minReplicas":0,"maxReplicas":10,"metrics":[{"type":"External","external":{"metric":{"name":"queue"},"target":{"type":"AverageValue","averageValue":"10"}}}]}`
)

// What is said and done in each case, in Kubernetes' words.
func TestReconcile(t *testing.T) {
	for name, tt := range map[string]struct {
		config, spec string
		change       func(w *world)
		size         int32 // that is asked for; 0: none
		able, active string
		events       string
		fails        string
	}{
		"up": {
			spec: cpuHalf, change: func(w *world) { w.use("web", 800) }, size: 4,
			able:   "True SucceededRescale: the HPA controller was able to update the target scale to 4",
			active: "True ValidMetricFound: the HPA was able to successfully calculate a replica count from cpu resource utilization (percentage of request)",
			events: "Normal SuccessfulRescale New size: 4; reason: cpu resource utilization (percentage of request) above target",
		},
		"more than allowed": {
			spec: `{"maxReplicas":1}`, size: 1, able: "True SucceededRescale: the HPA controller was able to update the target scale to 1",
			events: "Normal SuccessfulRescale New size: 1; reason: Current number of replicas above Spec.MaxReplicas",
		},
		"fewer than allowed": {
			spec: `{"minReplicas":5,"maxReplicas":9}`, size: 5, able: "True SucceededRescale: the HPA controller was able to update the target scale to 5",
			events: "Normal SuccessfulRescale New size: 5; reason: Current number of replicas below Spec.MinReplicas",
		},
		"scaled to zero by hand": {
			spec: cpuHalf, change: func(w *world) { w.targets.of["ns/web"].Spec.Replicas = 0 },
			able: "True SucceededGetScale: the HPA controller was able to get the target's current scale", active: "False ScalingDisabled: scaling is disabled since the replica count of the target is zero",
		},
		"no target": {
			spec: cpuHalf, change: func(w *world) { delete(w.targets.of, "ns/web") }, fails: `failed to query scale subresource for Deployment/ns/web: deployments.apps "web" not found`,
			able:   `False FailedGetScale: the HPA controller was unable to get the target's current scale: deployments.apps "web" not found`,
			events: `Warning FailedGetScale deployments.apps "web" not found`,
		},
		"a scale that is refused": {
			spec: cpuHalf, change: func(w *world) { w.use("web", 800); w.targets.refuse = errors.New("quota") }, fails: "failed to rescale Deployment/ns/web: quota",
			able:   "False FailedUpdateScale: the HPA controller was unable to update the target scale: quota",
			active: "True ValidMetricFound", events: "Warning FailedRescale New size: 4; reason: cpu resource utilization (percentage of request) above target; error: quota",
		},
		"no selector": {
			spec: cpuHalf, change: func(w *world) { w.targets.of["ns/web"].Status.Selector = "" }, fails: "selector is required",
			able: "True SucceededGetScale", active: "False InvalidSelector: the HPA target's scale is missing a selector",
			events: "Warning SelectorRequired selector is required\nWarning FailedComputeMetricsReplicas selector is required",
		},
		"a selector that is none": {
			spec: cpuHalf, change: func(w *world) { w.targets.of["ns/web"].Status.Selector = "a in" }, fails: "couldn't convert selector into a corresponding internal selector object",
			able: "True SucceededGetScale", active: "False InvalidSelector: couldn't convert selector into a corresponding internal selector object: ",
			events: "Warning InvalidSelector couldn't convert selector",
		},
		"no metrics": {
			spec: cpuHalf, change: func(w *world) { w.source.err = errors.New("nobody serves them") },
			fails: "failed to compute desired number of replicas based on listed metrics for Deployment/ns/web: invalid metrics (1 invalid out of 1), first error is: failed to get cpu resource metric value: failed to get cpu utilization: unable to get metrics for resource cpu: nobody serves them",
			able:  "True SucceededGetScale", active: "False FailedGetResourceMetric: the HPA was unable to compute the replica count: failed to get cpu utilization: unable to get metrics for resource cpu: nobody serves them",
			events: "Warning FailedGetResourceMetric failed to get cpu utilization: unable to get metrics for resource cpu: nobody serves them\nWarning FailedComputeMetricsReplicas invalid metrics (1 invalid out of 1)",
		},
		"one of two fails, and there is need": {
			spec: twoMetrics, change: func(w *world) { w.source.samples = nil; w.source.values = []int64{3000} }, size: 4,
			able: "True SucceededRescale", active: "True ValidMetricFound: the HPA was able to successfully calculate a replica count from external metric queue(nil)",
			events: "Warning FailedGetResourceMetric failed to get cpu utilization: did not receive metrics for targeted pods (pods might be unready)\nNormal SuccessfulRescale New size: 4; reason: external metric queue(nil) above target",
			fails:  "invalid metrics (1 invalid out of 2)",
		},
		"one of two fails, and there is none": {
			spec: twoMetrics, change: func(w *world) { w.source.samples = nil; w.source.values = []int64{100} },
			able: "True SucceededGetScale", active: "False FailedGetResourceMetric", events: "Warning FailedGetResourceMetric", fails: "invalid metrics (1 invalid out of 2)",
		},
		"a kind of metric that there is not": {
			spec: `{"maxReplicas":3,"metrics":[{"type":"Moon"}]}`, fails: `unknown metric source type "Moon"`,
			able: "True SucceededGetScale", active: `False InvalidMetricSourceType: the HPA was unable to compute the replica count: unknown metric source type "Moon"`, events: `Warning InvalidMetricSourceType unknown metric source type "Moon"`,
		},
		"a target that is none": {
			spec: `{"maxReplicas":3,"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{}}}]}`, fails: "neither an average utilization target nor an average value (usage) target was set",
			able: "True SucceededGetScale", active: "False FailedGetResourceMetric", events: "Warning FailedGetResourceMetric invalid resource metric source",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tt.config)
			w.target("web", 2)
			w.hpa("web", "web", tt.spec)
			if tt.change != nil {
				tt.change(w)
			}
			h, err := w.look("web")
			if tt.fails == "" {
				tt.fails = "the next look at the metrics"
			}
			if err == nil || !strings.Contains(err.Error(), tt.fails) {
				t.Errorf("error %v, want %q", err, tt.fails)
			}
			if got := condition(h, autoscalingv2.AbleToScale); !strings.HasPrefix(got, tt.able) {
				t.Errorf("AbleToScale %q, want %q", got, tt.able)
			}
			if got := condition(h, autoscalingv2.ScalingActive); !strings.HasPrefix(got, tt.active) || tt.active == "" && got != "" {
				t.Errorf("ScalingActive %q, want %q", got, tt.active)
			}
			if got := w.told(); !strings.HasPrefix(got, tt.events) || tt.events == "" && got != "" {
				t.Errorf("events %q, want %q", got, tt.events)
			}
			if tt.size == 0 && len(w.targets.sizes) != 0 || tt.size != 0 && (len(w.targets.sizes) != 1 || w.targets.sizes[0] != tt.size) {
				t.Errorf("sizes asked for: %v, want %d", w.targets.sizes, tt.size)
			}
			if (tt.size != 0) != (h.Status.LastScaleTime != nil) {
				t.Errorf("last scale time %v", h.Status.LastScaleTime)
			}
		})
	}
}

// Two autoscalers of the same pods: neither scales them. When one is gone, the other does.
func TestAmbiguousSelector(t *testing.T) {
	w := newWorld(t, "")
	w.target("web", 2)
	w.target("shop", 2)
	w.use("web", 900)
	a, b := w.hpa("a", "web", cpuHalf), w.hpa("b", "web", cpuHalf)
	w.hpa("other", "shop", cpuHalf)
	w.selectors.set("ns", "b", mustSelector(t, "app=web"))
	const words = "pods by selector app=web are controlled by multiple HPAs: [ns/a ns/b]"
	got, err := w.look("a")
	if err == nil || !strings.Contains(err.Error(), words) || condition(got, autoscalingv2.ScalingActive) != "False AmbiguousSelector: "+words {
		t.Errorf("%v: %v", err, got.Status.Conditions)
	}
	if events := w.told(); !strings.Contains(events, "Warning AmbiguousSelector "+words) {
		t.Error(events)
	}
	// By another selector of the same pods too.
	w.selectors.set("ns", "b", mustSelector(t, "app in (web,shop)"))
	if _, err := w.look("a"); err == nil || !strings.Contains(err.Error(), "multiple HPAs") {
		t.Error(err)
	}
	if err := w.hpaSet.Delete(b); err != nil {
		t.Fatal(err)
	}
	w.changed(b, nil)
	if _, err := w.look(a.Name); len(w.targets.sizes) != 1 {
		t.Errorf("when the other is gone: %v, %v", err, w.targets.sizes)
	}
}

// To zero and back, where the gate is on; a workload that somebody else scaled to zero
// stays there.
func TestScaleToZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, `{"featureGates":{"HPAScaleToZero":true},"horizontalPodAutoscalerDownscaleStabilizationWindow":"0s"}`)
		w.target("web", 2)
		w.hpa("web", "web", queueToZero)
		w.source.values = []int64{20_000}
		if _, err := w.look("web"); len(w.targets.sizes) != 0 {
			t.Fatal(w.targets.sizes, err)
		}
		w.source.values = []int64{0}
		time.Sleep(time.Second)
		h, _ := w.look("web")
		if got := condition(h, autoscalingv2.ScaledToZero); w.targets.of["ns/web"].Spec.Replicas != 0 || got != "True ScaledToZero: the HPA controller scaled the workload to zero" {
			t.Fatalf("%q at %d", got, w.targets.of["ns/web"].Spec.Replicas)
		}
		w.source.values = []int64{25_000}
		h, _ = w.look("web")
		if got := condition(h, autoscalingv2.ScaledToZero); w.targets.of["ns/web"].Spec.Replicas != 3 || got != "False NotScaledToZero: the HPA controller did not scale the workload to zero" {
			t.Fatalf("%q at %d", got, w.targets.of["ns/web"].Spec.Replicas)
		}
		w.targets.of["ns/web"].Spec.Replicas = 0
		asked := w.source.asked
		h, _ = w.look("web")
		if got := condition(h, autoscalingv2.ScalingActive); w.source.asked != asked || !strings.HasPrefix(got, "False ScalingDisabled") {
			t.Errorf("scaled to zero by hand: %q, asked %d times", got, w.source.asked-asked)
		}
	})
}

// The tolerance of an autoscaler's own, and the gate that it hangs on.
func TestTolerance(t *testing.T) {
	spec := strings.Replace(cpuHalf, `"maxReplicas"`, `"behavior":{"scaleUp":{"tolerance":"500m"},"scaleDown":{"stabilizationWindowSeconds":0}},"maxReplicas"`, 1)
	for config, want := range map[string]int{"": 0, `{"featureGates":{"HPAConfigurableTolerance":false}}`: 1} {
		w := newWorld(t, config)
		w.target("web", 2)
		w.use("web", 700)
		w.hpa("web", "web", spec)
		if _, err := w.look("web"); len(w.targets.sizes) != want {
			t.Errorf("%s: %v, %v", config, w.targets.sizes, err)
		}
	}
}

// A status that is the same is not written again.
func TestQuietWhenNothingChanges(t *testing.T) {
	w := newWorld(t, "")
	w.target("web", 2)
	w.use("web", 500)
	w.hpa("web", "web", cpuHalf)
	for range 5 {
		if _, err := w.look("web"); err == nil {
			t.Fatal("no next look")
		}
	}
	updates := 0
	for _, a := range w.client.Actions() {
		if a.Matches("update", "horizontalpodautoscalers/status") {
			updates++
		}
	}
	if updates != 1 {
		t.Errorf("%d updates of the status", updates)
	}
}

// What the shared cache holds is not changed.
func TestCacheIsNotChanged(t *testing.T) {
	w := newWorld(t, "")
	w.target("web", 2)
	w.use("web", 900)
	h := w.hpa("web", "web", cpuHalf)
	before := h.DeepCopy()
	if err := w.sync(t.Context(), "ns/web"); err == nil {
		t.Fatal("no next look")
	}
	if len(h.Status.Conditions) != len(before.Status.Conditions) || h.Status.LastScaleTime != nil {
		t.Errorf("the cached one says %+v", h.Status)
	}
}

func TestConfig(t *testing.T) {
	c, err := readConfig(nil)
	if err != nil || c.ConcurrentHorizontalPodAutoscalerSyncs != 5 || c.HorizontalPodAutoscalerSyncPeriod != (metav1.Duration{Duration: 15 * time.Second}) || c.HorizontalPodAutoscalerTolerance != 0.1 {
		t.Errorf("%+v, %v", c, err)
	}
	for _, text := range []string{
		`{"concurrentHorizontalPodAutoscalerSyncs":0}`, `{"horizontalPodAutoscalerSyncPeriod":"1ms"}`, `{"horizontalPodAutoscalerTolerance":-1}`,
		`{"horizontalPodAutoscalerCPUInitializationPeriod":"-1s"}`, `{"featureGates":{"Moon":true}}`, `{"moon":1}`, `[]`,
	} {
		if _, err := readConfig([]byte(text)); err == nil || !strings.HasPrefix(err.Error(), "horizontalpodautoscaler configuration: ") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
