package certificates

import (
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// conditionsOf are copies of the conditions of one type.
func conditionsOf(o *certificatesv1.CertificateSigningRequest, t certificatesv1.RequestConditionType) []certificatesv1.CertificateSigningRequestCondition {
	var out []certificatesv1.CertificateSigningRequestCondition
	for _, c := range o.Status.Conditions {
		if c.Type == t {
			out = append(out, c)
		}
	}
	return out
}

// keepConditions puts the stored conditions of a type in place of the given ones.
// Where there are more or fewer of them it does not: that is refused later.
func keepConditions(o, old *certificatesv1.CertificateSigningRequest, t certificatesv1.RequestConditionType) {
	stored := conditionsOf(old, t)
	if len(conditionsOf(o, t)) != len(stored) {
		return
	}
	for i := range o.Status.Conditions {
		if o.Status.Conditions[i].Type == t {
			o.Status.Conditions[i], stored = stored[0], stored[1:]
		}
	}
}

// stamp gives conditions the times that they do not have.
func stamp(o, old *certificatesv1.CertificateSigningRequest) {
	now := metav1.Now()
	for i := range o.Status.Conditions {
		c := &o.Status.Conditions[i]
		if c.LastUpdateTime.IsZero() {
			c.LastUpdateTime = now
		}
		if !c.LastTransitionTime.IsZero() {
			continue
		}
		c.LastTransitionTime = now
		for _, before := range old.Status.Conditions {
			if before.Type == c.Type && before.Status == c.Status && !before.LastTransitionTime.IsZero() {
				c.LastTransitionTime = before.LastTransitionTime
				break
			}
		}
	}
}
