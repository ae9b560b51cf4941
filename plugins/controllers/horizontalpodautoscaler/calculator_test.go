package horizontalpodautoscaler

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
)

func scopeOf(spec, status int32) *scope {
	return &scope{namespace: "ns", pods: labels.SelectorFromSet(labels.Set{"app": "web"}), spec: spec, status: status, tolerances: tolerances{down: 0.1, up: 0.1}}
}

// Sizes by the use of CPU: pods without a sample, pods that start, pods that end.
func TestByUtilization(t *testing.T) {
	minute := func(n int) metav1.Time { return metav1.NewTime(time.Now().Add(-time.Duration(n) * time.Minute)) }
	starting := func(p *corev1.Pod) { p.Status.StartTime = ptr.To(minute(1)) }
	unready := func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }
	for name, tt := range map[string]struct {
		milli   []int64 // of each pod; negative: no sample
		percent int32
		change  func(i int, p *corev1.Pod)
		want    int32
		use     int32
		fails   string
	}{
		"at the target":                     {milli: []int64{500, 500}, percent: 50, want: 2, use: 50},
		"within the tolerance above":        {milli: []int64{550, 550}, percent: 50, want: 2, use: 55},
		"above it":                          {milli: []int64{560, 560}, percent: 50, want: 3, use: 56},
		"within the tolerance below":        {milli: []int64{450, 450}, percent: 50, want: 2, use: 45},
		"below it":                          {milli: []int64{100, 100, 100, 100}, percent: 50, want: 1, use: 10},
		"nothing used":                      {milli: []int64{0, 0, 0}, percent: 50, want: 0, use: 0},
		"whole percents, cut off":           {milli: []int64{559, 559}, percent: 50, want: 2, use: 55},
		"one without a sample, up":          {milli: []int64{900, 900, -1}, percent: 50, want: 4, use: 90},
		"one without a sample, hardly up":   {milli: []int64{600, 600, -1}, percent: 50, want: 3, use: 60},
		"one without a sample, down":        {milli: []int64{100, 100, 100, 100, 100, -1}, percent: 50, want: 3, use: 10},
		"half without, down becomes up":     {milli: []int64{200, 200, -1, -1}, percent: 50, want: 4, use: 20},
		"none with a sample":                {milli: []int64{-1, -1}, percent: 50, fails: "did not receive metrics for targeted pods"},
		"a target above 100, missing at it": {milli: []int64{1000, 1000, -1}, percent: 200, want: 2, use: 100},
		"one that starts and is not ready":  {milli: []int64{1000, 1000, 3000}, percent: 50, want: 4, use: 100, change: only(2, starting, unready)},
		"one that never was ready":          {milli: []int64{1000, 1000, 3000}, percent: 50, want: 4, use: 100, change: only(2, unready)},
		"one that was ready and is not":     {milli: []int64{1000, 1000, 1000}, percent: 50, want: 6, use: 100, change: only(2, unready, func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = minute(1) })},
		"ready for less than the window":    {milli: []int64{1000, 3000}, percent: 50, want: 2, use: 100, change: only(1, starting, func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = minute(0) })},
		"without a condition":               {milli: []int64{1000, 1000}, percent: 50, want: 2, use: 100, change: only(1, func(p *corev1.Pod) { p.Status.Conditions = nil })},
		"pending":                           {milli: []int64{1000, -1, -1}, percent: 50, want: 3, use: 100, change: func(i int, p *corev1.Pod) { p.Status.Phase = phaseOf(i == 0) }},
		"all pending":                       {milli: []int64{700, 700}, percent: 50, fails: "pods might be unready", change: func(_ int, p *corev1.Pod) { p.Status.Phase = corev1.PodPending }},
		"deleted and failed ones do not count": {milli: []int64{1000, 1000, 9000, 9000}, percent: 50, want: 4, use: 100, change: func(i int, p *corev1.Pod) {
			switch i {
			case 2:
				p.DeletionTimestamp = ptr.To(minute(0))
			case 3:
				p.Status.Phase = corev1.PodFailed
			}
		}},
		"no request": {milli: []int64{500}, percent: 50, fails: "missing request for cpu in container c of Pod web-0", change: only(0, func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = nil })},
		"a side car counts, an init container does not": {milli: []int64{1000}, percent: 50, want: 1, use: 50, change: only(0, func(p *corev1.Pod) {
			side := p.Spec.Containers[0]
			side.Name, side.RestartPolicy = "side", ptr.To(corev1.ContainerRestartPolicyAlways)
			p.Spec.InitContainers = []corev1.Container{side, {Name: "init"}}
		})},
		"a request of the pod goes first": {milli: []int64{1000}, percent: 50, want: 1, use: 50, change: only(0, func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}}
		})},
		"requests of nothing": {milli: []int64{10}, percent: 50, fails: "no metrics returned matched known pods", change: only(0, func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("0")
		})},
		"huge":     {milli: []int64{math.MaxInt64, math.MaxInt64}, percent: 1, want: math.MaxInt32, use: math.MaxInt32},
		"negative": {milli: []int64{math.MinInt64, math.MinInt64}, percent: 1, want: 0, use: math.MinInt32},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "")
			w.source.samples = map[string]sample{}
			for i, milli := range tt.milli {
				p := readyPod("web-"+string(rune('0'+i)), "web")
				if tt.change != nil {
					tt.change(i, p)
				}
				w.pod(p)
				if milli >= 0 || milli == math.MinInt64 {
					w.source.samples[p.Name] = sample{value: milli, at: time.Now(), window: 30 * time.Second}
				}
			}
			n := int32(len(tt.milli))
			got, err := w.calc.byUtilization(t.Context(), scopeOf(n, n), corev1.ResourceCPU, "", tt.percent)
			if tt.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tt.fails) {
					t.Fatalf("error %v, want %q", err, tt.fails)
				}
				return
			}
			if err != nil || got.replicas != tt.want || got.percent != tt.use {
				t.Errorf("%d replicas at %d%%, %v; want %d at %d%%", got.replicas, got.percent, err, tt.want, tt.use)
			}
		})
	}
}

func only(which int, changes ...func(*corev1.Pod)) func(int, *corev1.Pod) {
	return func(i int, p *corev1.Pod) {
		if i == which {
			for _, change := range changes {
				change(p)
			}
		}
	}
}

func phaseOf(running bool) corev1.PodPhase {
	if running {
		return corev1.PodRunning
	}
	return corev1.PodPending
}

// Samples of pods that are not there change no utilization.
func TestStrangersDoNotCount(t *testing.T) {
	w := newWorld(t, "")
	w.target("web", 2)
	w.use("web", 500)
	w.source.samples["stranger"] = sample{value: 1 << 50}
	if got, err := w.calc.byUtilization(t.Context(), scopeOf(2, 2), corev1.ResourceCPU, "", 50); err != nil || got.replicas != 2 || got.percent != 50 || got.average != 500 {
		t.Errorf("%+v, %v", got, err)
	}
}

// A container's own request and use; one that is not there.
func TestContainer(t *testing.T) {
	w := newWorld(t, "")
	w.target("web", 2)
	w.use("web", 1000)
	if got, err := w.calc.byUtilization(t.Context(), scopeOf(2, 2), corev1.ResourceCPU, "c", 50); err != nil || got.replicas != 4 {
		t.Errorf("%+v, %v", got, err)
	}
	_, err := w.calc.byUtilization(t.Context(), scopeOf(2, 2), corev1.ResourceCPU, "none", 50)
	if err == nil || !strings.HasPrefix(err.Error(), "container none not found in Pod web-") {
		t.Error(err)
	}
}

// Sizes by averages, values and shares.
func TestByValue(t *testing.T) {
	const most = math.MaxInt64
	type result struct {
		replicas int32
		value    int64
	}
	for name, tt := range map[string]struct {
		size func(w *world) (int32, int64, error)
		want result
	}{
		"pods' average above": {func(w *world) (int32, int64, error) {
			w.use("web", 2000)
			return w.calc.byPodsMetric(scopeOf(3, 3), "m", nil, 1000)
		}, result{6, 2000}},
		"pods' average within": {func(w *world) (int32, int64, error) {
			w.use("web", 1050)
			return w.calc.byPodsMetric(scopeOf(3, 3), "m", nil, 1000)
		}, result{3, 1050}},
		"pods' average, one missing": {func(w *world) (int32, int64, error) {
			w.use("web", 100)
			delete(w.source.samples, "web-0")
			return w.calc.byPodsMetric(scopeOf(3, 3), "m", nil, 1000)
		}, result{2, 100}},
		"pods' average, huge": {func(w *world) (int32, int64, error) {
			w.use("web", most)
			return w.calc.byPodsMetric(scopeOf(3, 3), "m", nil, 1)
		}, result{math.MaxInt32, most / 3}},
		"pods' average, negative": {func(w *world) (int32, int64, error) {
			w.use("web", -5000)
			return w.calc.byPodsMetric(scopeOf(3, 3), "m", nil, 1000)
		}, result{0, -5000}},
		"memory of each": {func(w *world) (int32, int64, error) {
			w.use("web", 3000)
			return w.calc.byUsage(t.Context(), scopeOf(3, 3), "memory", "", 1000)
		}, result{9, 3000}},
		"object": {func(w *world) (int32, int64, error) {
			w.source.object = 30
			return w.calc.byObject(scopeOf(3, 3), "m", ref(), nil, 10)
		}, result{9, 30}},
		"object, within": {func(w *world) (int32, int64, error) {
			w.source.object = 11
			return w.calc.byObject(scopeOf(3, 3), "m", ref(), nil, 10)
		}, result{3, 11}},
		"object, from none": {func(w *world) (int32, int64, error) {
			w.source.object = 25
			return w.calc.byObject(scopeOf(0, 0), "m", ref(), nil, 10)
		}, result{3, 25}},
		"object, to none": {func(w *world) (int32, int64, error) {
			w.source.object = 0
			return w.calc.byObject(scopeOf(3, 3), "m", ref(), nil, 10)
		}, result{0, 0}},
		"object, huge": {func(w *world) (int32, int64, error) {
			w.source.object = most
			return w.calc.byObject(scopeOf(3, 3), "m", ref(), nil, 1)
		}, result{math.MaxInt32, most}},
		"object's share": {func(w *world) (int32, int64, error) {
			w.source.object = 100
			return w.calc.byObjectAverage(scopeOf(3, 3), "m", ref(), nil, 20)
		}, result{5, 34}},
		"object's share, within": {func(w *world) (int32, int64, error) {
			w.source.object = 62
			return w.calc.byObjectAverage(scopeOf(3, 3), "m", ref(), nil, 20)
		}, result{3, 21}},
		"object's share of none": {func(w *world) (int32, int64, error) {
			w.source.object = 0
			return w.calc.byObjectAverage(scopeOf(0, 0), "m", ref(), nil, 20)
		}, result{0, 0}},
		"external, several values": {func(w *world) (int32, int64, error) {
			w.source.values = []int64{10, 20, 30}
			return w.calc.byExternal(scopeOf(3, 3), metricName(), 30)
		}, result{6, 60}},
		"external, too many values": {func(w *world) (int32, int64, error) {
			w.source.values = []int64{most, most, 1}
			return w.calc.byExternal(scopeOf(3, 3), metricName(), 1)
		}, result{math.MaxInt32, most}},
		"external's share": {func(w *world) (int32, int64, error) {
			w.source.values = []int64{100}
			return w.calc.byExternalAverage(scopeOf(3, 3), metricName(), 25)
		}, result{4, 34}},
		"external's share, negative": {func(w *world) (int32, int64, error) {
			w.source.values = []int64{-100}
			return w.calc.byExternalAverage(scopeOf(3, 3), metricName(), 25)
		}, result{0, -33}},
		"external's share of none": {func(w *world) (int32, int64, error) {
			w.source.values = []int64{100}
			return w.calc.byExternalAverage(scopeOf(0, 0), metricName(), 25)
		}, result{4, 100}},
		"external's share, huge": {func(w *world) (int32, int64, error) {
			w.source.values = []int64{most}
			return w.calc.byExternalAverage(scopeOf(1, 1), metricName(), 1)
		}, result{math.MaxInt32, most}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "")
			w.target("web", 3)
			replicas, value, err := tt.size(w)
			if err != nil || (result{replicas, value}) != tt.want {
				t.Errorf("%d replicas at %d, %v; want %+v", replicas, value, err, tt.want)
			}
		})
	}
	w := newWorld(t, "")
	w.source.err = errors.New("broken")
	if _, _, err := w.calc.byObject(scopeOf(1, 1), "m", ref(), nil, 1); err == nil || err.Error() != "unable to get metric m: broken on Ingress ns/main" {
		t.Error(err)
	}
	w.source.err, w.source.object = nil, 50
	if _, _, err := w.calc.byObject(scopeOf(1, 1), "m", ref(), nil, 1); err == nil || !strings.Contains(err.Error(), "no pods returned by selector while calculating replica count") {
		t.Error(err)
	}
}

// Numbers stay within those that there are.
func TestNumbers(t *testing.T) {
	for _, tt := range []struct {
		f    float64
		want int32
	}{{math.NaN(), 0}, {math.Inf(1), math.MaxInt32}, {math.Inf(-1), 0}, {1e300, math.MaxInt32}, {-3, 0}, {0.1, 1}, {2, 2}} {
		if got := ceil(tt.f); got != tt.want {
			t.Errorf("ceil(%v) is %d, want %d", tt.f, got, tt.want)
		}
	}
	for text, want := range map[string]int64{"1": 1000, "1m": 1, "1n": 1, "9e18": math.MaxInt64, "-9e18": math.MinInt64, "1e400": math.MaxInt64, "9223372036854775": 9223372036854775000} {
		q, err := resource.ParseQuantity(text)
		if err != nil {
			t.Fatal(text, err)
		}
		if got := thousandths(q); got != want {
			t.Errorf("%s is %d thousandths, want %d", text, got, want)
		}
	}
}
