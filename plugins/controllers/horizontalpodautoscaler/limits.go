package horizontalpodautoscaler

import (
	"math"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// Reasons of the condition ScalingLimited, and what they say.
const (
	reasonWithin  = "DesiredWithinRange"
	reasonFew     = "TooFewReplicas"
	reasonMany    = "TooManyReplicas"
	reasonFast    = "ScaleUpLimit"
	reasonFastOff = "ScaleDownLimit"

	wordsWithin  = "the desired count is within the acceptable range"
	wordsFew     = "the desired replica count is less than the minimum replica count"
	wordsMany    = "the desired replica count is more than the maximum replica count"
	wordsFast    = "the desired replica count is increasing faster than the maximum scale rate"
	wordsFastOff = "the desired replica count is decreasing faster than the maximum scale rate"
)

const (
	reasonUpStabilised   = "ScaleUpStabilized"
	reasonDownStabilised = "ScaleDownStabilized"

	wordsUpStabilised   = "recent recommendations were lower than current one, applying the lowest recent recommendation"
	wordsDownStabilised = "recent recommendations were higher than current one, applying the highest recent recommendation"
)

// sizes are the numbers of replicas that a limit is about.
type sizes struct{ current, desired, least, most int32 }

// limit turns the size that the metrics ask for into the one to scale to now, and says
// in the conditions what it went by.
func (a *autoscaler) limit(hpa *autoscalingv2.HorizontalPodAutoscaler, h *history, s sizes) int32 {
	asked := s.desired
	var reason, words string
	if b := hpa.Spec.Behavior; b == nil {
		s.desired = h.stabilise(asked, a.config.HorizontalPodAutoscalerDownscaleStabilizationWindow.Duration)
		reason, words = reasonDownStabilised, wordsDownStabilised
	} else {
		s.desired = h.stabiliseBoth(s.current, asked, window(b.ScaleUp, 0), window(b.ScaleDown, a.config.HorizontalPodAutoscalerDownscaleStabilizationWindow.Duration))
		reason, words = reasonUpStabilised, wordsUpStabilised
		if asked < s.current {
			reason, words = reasonDownStabilised, wordsDownStabilised
		}
	}
	if s.desired == asked {
		reason, words = "ReadyForNewScale", "recommended size matches current size"
	}
	setCondition(hpa, autoscalingv2.AbleToScale, corev1.ConditionTrue, reason, words)

	var limited int32
	if b := hpa.Spec.Behavior; b == nil {
		limited, reason, words = s.bounded()
	} else {
		limited, reason, words = s.boundedBy(h, b)
	}
	status := corev1.ConditionTrue
	if limited == s.desired {
		status = corev1.ConditionFalse
	}
	setCondition(hpa, autoscalingv2.ScalingLimited, status, reason, words)
	return limited
}

// stabilise returns the largest size that was recommended within the window.
func (h *history) stabilise(desired int32, window time.Duration) int32 {
	highest, oldest := desired, time.Now().Add(-window)
	for _, r := range h.recommendations {
		if !r.at.Before(oldest) {
			highest = max(highest, r.replicas)
		}
	}
	h.recommend(desired, window)
	return highest
}

// stabiliseBoth returns the present size, moved no more than all recommendations of each
// window agree on.
func (h *history) stabiliseBoth(current, desired int32, up, down time.Duration) int32 {
	lowest, highest, now := desired, desired, time.Now()
	for _, r := range h.recommendations {
		if r.at.After(now.Add(-up)) {
			lowest = min(lowest, r.replicas)
		}
		if r.at.After(now.Add(-down)) {
			highest = max(highest, r.replicas)
		}
	}
	h.recommend(desired, max(up, down))
	return min(max(current, lowest), highest)
}

// bounded keeps a size within the bounds of an autoscaler without behavior, and upwards
// to twice the present one, or four.
func (s sizes) bounded() (int32, string, string) {
	most, reason, words := s.most, reasonMany, wordsMany
	if fast := toInt32(max(2*float64(s.current), 4)); s.most > fast {
		most, reason, words = fast, reasonFast, wordsFast
	}
	switch {
	case s.desired < s.least:
		return s.least, reasonFew, wordsFew
	case s.desired > most:
		return most, reason, words
	}
	return s.desired, reasonWithin, wordsWithin
}

// boundedBy keeps a size within the bounds and the rates of an autoscaler's behavior.
func (s sizes) boundedBy(h *history, b *autoscalingv2.HorizontalPodAutoscalerBehavior) (int32, string, string) {
	switch {
	case s.desired > s.current:
		most, reason, words := s.most, reasonMany, wordsMany
		if fast := max(s.current, fastest(s.current, h, b.ScaleUp, true)); s.most > fast {
			most, reason, words = fast, reasonFast, wordsFast
		}
		if s.desired > most {
			return most, reason, words
		}
	case s.desired < s.current:
		least, reason, words := s.least, reasonFew, wordsFew
		if fast := min(s.current, fastest(s.current, h, b.ScaleDown, false)); s.least < fast {
			least, reason, words = fast, reasonFastOff, wordsFastOff
		}
		if s.desired < least {
			return least, reason, words
		}
	}
	return s.desired, reasonWithin, wordsWithin
}

// fastest is the size that the policies of a direction allow now, given what was scaled
// in their periods.
func fastest(current int32, h *history, rules *autoscalingv2.HPAScalingRules, up bool) int32 {
	selection := autoscalingv2.MaxChangePolicySelect
	if rules != nil {
		selection = ptr.Deref(rules.SelectPolicy, selection)
	}
	if rules == nil || len(rules.Policies) == 0 || selection == autoscalingv2.DisabledPolicySelect {
		return current
	}
	// The largest change is the largest size upwards, and the smallest downwards.
	largest := (selection == autoscalingv2.MinChangePolicySelect) != up
	var result int32
	for i := range rules.Policies {
		p := &rules.Policies[i]
		period := time.Duration(p.PeriodSeconds) * time.Second
		start := float64(int64(current) - within(h.ups, period) + within(h.downs, period))
		allowed := toInt32(allows(p, start, up))
		if i == 0 || largest == (allowed > result) {
			result = allowed
		}
	}
	return result
}

// allows is the size that a policy allows from the one at the beginning of its period.
// Upwards it is rounded up, so that a percentage of little is not nothing.
func allows(p *autoscalingv2.HPAScalingPolicy, start float64, up bool) float64 {
	change := float64(p.Value)
	if p.Type == autoscalingv2.PercentScalingPolicy {
		if up {
			return math.Ceil(start * (1 + change/100))
		}
		return start * (1 - change/100)
	}
	if up {
		return start + change
	}
	return start - change
}

// window is how far back recommendations count.
func window(rules *autoscalingv2.HPAScalingRules, otherwise time.Duration) time.Duration {
	if rules == nil || rules.StabilizationWindowSeconds == nil {
		return otherwise
	}
	return time.Duration(*rules.StabilizationWindowSeconds) * time.Second
}

// longestPeriod is how long a change counts.
func longestPeriod(rules *autoscalingv2.HPAScalingRules) (longest time.Duration) {
	if rules == nil {
		return 0
	}
	for i := range rules.Policies {
		longest = max(longest, time.Duration(rules.Policies[i].PeriodSeconds)*time.Second)
	}
	return longest
}

// scaled remembers a scaling, where behavior has rates that count it.
func (h *history) scaled(b *autoscalingv2.HorizontalPodAutoscalerBehavior, from, to int32) {
	switch {
	case b == nil:
	case to > from:
		h.ups = note(h.ups, to-from, longestPeriod(b.ScaleUp))
	default:
		h.downs = note(h.downs, from-to, longestPeriod(b.ScaleDown))
	}
}
