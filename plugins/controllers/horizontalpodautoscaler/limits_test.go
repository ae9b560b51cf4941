package horizontalpodautoscaler

import (
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
)

// What an autoscaler without behavior does: a higher recommendation of the last five
// minutes stays, and a step up is to twice the size, or four.
func TestStabilisation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		w.target("web", 4)
		w.hpa("web", "web", cpuHalf)
		step := func(use int64, size int32, able, limited string) {
			t.Helper()
			w.use("web", use)
			h, _ := w.look("web")
			if got := w.targets.of["ns/web"].Spec.Replicas; got != size {
				t.Errorf("size %d, want %d", got, size)
			}
			if got := condition(h, autoscalingv2.AbleToScale); !strings.HasPrefix(got, able) {
				t.Errorf("AbleToScale %q, want %q", got, able)
			}
			if got := condition(h, autoscalingv2.ScalingLimited); !strings.HasPrefix(got, limited) {
				t.Errorf("ScalingLimited %q, want %q", got, limited)
			}
			for i := range size { // its pods run, an hour after
				w.pod(readyPod("web-"+string(rune('0'+i)), "web"))
			}
			time.Sleep(15 * time.Second)
		}
		step(100, 4, "True ScaleDownStabilized: recent recommendations were higher than current one, applying the highest recent recommendation", "False DesiredWithinRange: the desired count is within the acceptable range")
		for range 19 {
			step(100, 4, "True ScaleDownStabilized", "False DesiredWithinRange")
		}
		// The size of the start counts for five minutes, and no longer.
		step(100, 4, "True ScaleDownStabilized", "False")
		step(100, 1, "True SucceededRescale: the HPA controller was able to update the target scale to 1", "False DesiredWithinRange")
		w.source.samples = nil
		w.podSet.Replace(nil, "") //nolint:errcheck // of a cache in memory
		w.pod(readyPod("web-0", "web"))
		step(10_000, 4, "True SucceededRescale", "True ScaleUpLimit: the desired replica count is increasing faster than the maximum scale rate")
		step(10_000, 8, "True SucceededRescale", "True ScaleUpLimit")
		step(10_000, 10, "True SucceededRescale", "True TooManyReplicas: the desired replica count is more than the maximum replica count")
		// What was asked for then is still wanted, though no more than the maximum is given.
		step(500, 10, "True ScaleDownStabilized", "True TooManyReplicas")
		time.Sleep(5 * time.Minute)
		step(500, 10, "True ReadyForNewScale: recommended size matches current size", "False DesiredWithinRange")
	})
}

// The controller remembers no more than its windows.
func TestMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		w.target("web", 2)
		h := w.hpa("web", "web", `{"maxReplicas":10,"behavior":{"scaleUp":{"stabilizationWindowSeconds":0},"scaleDown":{}},"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":50}}}]}`)
		for range 1000 {
			w.use("web", 500)
			if _, err := w.look("web"); err == nil || !strings.Contains(err.Error(), "next look") {
				t.Fatal(err)
			}
			w.histories.of["ns/web"].scaled(h.Spec.Behavior, 1, 2)
			w.histories.of["ns/web"].scaled(h.Spec.Behavior, 2, 1)
			time.Sleep(15 * time.Second)
		}
		kept := w.histories.of["ns/web"]
		if n := len(kept.recommendations); n < 20 || n > 22 {
			t.Errorf("%d recommendations are kept", n)
		}
		if len(kept.ups) > 2 || len(kept.downs) > 2 {
			t.Errorf("%d and %d changes are kept", len(kept.ups), len(kept.downs))
		}
		if err := w.hpaSet.Delete(h); err != nil {
			t.Fatal(err)
		}
		w.changed(h, nil)
		if err := w.sync(t.Context(), "ns/web"); err != nil || len(w.histories.of) != 0 || w.selectors.size() != 0 {
			t.Errorf("after its deletion: %v, %d histories, %d selectors", err, len(w.histories.of), w.selectors.size())
		}
	})
}

// Recommendations of both windows, by what behavior says.
func TestStabiliseBoth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, tt := range map[string]struct {
			former        []int32 // a minute apart, the last of them a minute ago
			current, want int32
			desired       int32
			up, down      time.Duration
		}{
			"no windows, up":                 {nil, 3, 8, 8, 0, 0},
			"no windows, down":               {nil, 3, 1, 1, 0, 0},
			"a lower one holds up":           {[]int32{5}, 3, 5, 8, 2 * time.Minute, 0},
			"a lower one that is too old":    {[]int32{5, 9}, 3, 8, 8, 90 * time.Second, 0},
			"a higher one holds down":        {[]int32{7}, 9, 7, 2, 0, 2 * time.Minute},
			"a higher one that is too old":   {[]int32{7, 2}, 9, 3, 3, 0, 90 * time.Second},
			"lower than it is: it stays":     {[]int32{2}, 3, 3, 8, 2 * time.Minute, 0},
			"both, and the present between":  {[]int32{2, 9}, 4, 4, 6, 5 * time.Minute, 5 * time.Minute},
			"at the very edge of the window": {[]int32{5}, 3, 8, 8, time.Minute, 0},
		} {
			h := &history{}
			for _, n := range tt.former {
				h.recommendations = append(h.recommendations, recommendation{n, time.Now()})
				time.Sleep(time.Minute)
			}
			if got := h.stabiliseBoth(tt.current, tt.desired, tt.up, tt.down); got != tt.want {
				t.Errorf("%s: %d, want %d", name, got, tt.want)
			}
		}
	})
}

// Rates: policies of both kinds, the choice among them, and what was scaled already.
func TestRates(t *testing.T) {
	pods := func(n, period int32) autoscalingv2.HPAScalingPolicy {
		return autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PodsScalingPolicy, Value: n, PeriodSeconds: period}
	}
	percent := func(n, period int32) autoscalingv2.HPAScalingPolicy {
		return autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PercentScalingPolicy, Value: n, PeriodSeconds: period}
	}
	type policies = []autoscalingv2.HPAScalingPolicy
	for name, tt := range map[string]struct {
		up       bool
		selected autoscalingv2.ScalingPolicySelect
		policies policies
		ups      []int32 // half a minute ago, a minute and a half ago, …
		downs    []int32
		current  int32
		want     int32
	}{
		"pods up":                      {up: true, policies: policies{pods(4, 60)}, current: 10, want: 14},
		"percent up, rounded up":       {up: true, policies: policies{percent(10, 60)}, current: 11, want: 13},
		"percent of one":               {up: true, policies: policies{percent(1, 60)}, current: 1, want: 2},
		"the largest up":               {up: true, policies: policies{pods(4, 60), percent(100, 60)}, current: 10, want: 20},
		"the smallest up":              {up: true, selected: autoscalingv2.MinChangePolicySelect, policies: policies{pods(4, 60), percent(100, 60)}, current: 10, want: 14},
		"never up":                     {up: true, selected: autoscalingv2.DisabledPolicySelect, policies: policies{pods(4, 60)}, current: 10, want: 10},
		"pods down":                    {policies: policies{pods(4, 60)}, current: 10, want: 6},
		"percent down, cut off":        {policies: policies{percent(10, 60)}, current: 15, want: 13},
		"the largest down":             {policies: policies{pods(4, 60), percent(100, 60)}, current: 10, want: 0},
		"the smallest down":            {selected: autoscalingv2.MinChangePolicySelect, policies: policies{pods(4, 60), percent(100, 60)}, current: 10, want: 6},
		"never down":                   {selected: autoscalingv2.DisabledPolicySelect, policies: policies{pods(4, 60)}, current: 10, want: 10},
		"used up within the period":    {up: true, policies: policies{pods(4, 60)}, ups: []int32{4}, current: 14, want: 14},
		"half used up":                 {up: true, policies: policies{pods(4, 60)}, ups: []int32{2}, current: 12, want: 14},
		"older than the period":        {up: true, policies: policies{pods(4, 60)}, ups: []int32{0, 4}, current: 14, want: 18},
		"a longer period counts both":  {up: true, policies: policies{pods(10, 120)}, ups: []int32{2, 4}, current: 16, want: 20},
		"what went down may come back": {up: true, policies: policies{pods(4, 60)}, downs: []int32{3}, current: 7, want: 14},
		"down after up":                {policies: policies{pods(4, 60)}, ups: []int32{2}, current: 12, want: 6},
		"no bottom":                    {policies: policies{pods(math.MaxInt32, 60)}, downs: []int32{math.MaxInt32}, current: 1, want: 1},
		"no top":                       {up: true, policies: policies{percent(math.MaxInt32, 60)}, downs: []int32{math.MaxInt32, math.MaxInt32}, current: math.MaxInt32, want: math.MaxInt32},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rules := &autoscalingv2.HPAScalingRules{Policies: tt.policies}
				if tt.selected != "" {
					rules.SelectPolicy = &tt.selected
				}
				h := &history{}
				at := func(i int) time.Time { return time.Now().Add(-30*time.Second - time.Duration(i)*time.Minute) }
				for i, n := range tt.ups {
					h.ups = append(h.ups, change{n, at(i)})
				}
				for i, n := range tt.downs {
					h.downs = append(h.downs, change{n, at(i)})
				}
				if got := fastest(tt.current, h, rules, tt.up); got != tt.want {
					t.Errorf("%d, want %d", got, tt.want)
				}
			})
		})
	}
	if got := fastest(7, &history{}, nil, true); got != 7 {
		t.Errorf("without rules: %d", got)
	}
}

// An autoscaler with behavior goes up by its rate, waits, and comes down by its rate.
func TestBehavior(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		w.target("web", 2)
		w.hpa("web", "web", `{"minReplicas":1,"maxReplicas":9,"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":50}}}],"behavior":{
			"scaleUp":{"stabilizationWindowSeconds":0,"policies":[{"type":"Pods","value":3,"periodSeconds":30}]},
			"scaleDown":{"stabilizationWindowSeconds":60,"policies":[{"type":"Pods","value":2,"periodSeconds":15}]}}}`)
		var sizes []int32
		for i := range 16 {
			use := int64(2000)
			if i >= 6 {
				use = 1
			}
			size := w.targets.of["ns/web"].Spec.Replicas
			for i := range size {
				w.pod(readyPod("web-"+string(rune('0'+i)), "web"))
			}
			for i := size; i < 9; i++ {
				_ = w.podSet.Delete(readyPod("web-"+string(rune('0'+i)), "web"))
			}
			w.use("web", use)
			h, _ := w.look("web")
			sizes = append(sizes, w.targets.of["ns/web"].Spec.Replicas)
			if i == 1 {
				if got := condition(h, autoscalingv2.ScalingLimited); got != "True ScaleUpLimit: the desired replica count is increasing faster than the maximum scale rate" {
					t.Error(got)
				}
			}
			if i == 7 {
				if got := condition(h, autoscalingv2.AbleToScale); got != "True ScaleDownStabilized: recent recommendations were higher than current one, applying the highest recent recommendation" {
					t.Error(got)
				}
			}
			time.Sleep(15 * time.Second)
		}
		want := []int32{5, 5, 8, 8, 9, 9, 9, 9, 9, 7, 5, 3, 1, 1, 1, 1}
		for i := range want {
			if sizes[i] != want[i] {
				t.Fatalf("sizes %v, want %v", sizes, want)
			}
		}
	})
}
