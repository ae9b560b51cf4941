package job

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
)

// succeeds says by which rule of the policy, nil for none, the Job succeeded.
func succeeds(policy *batchv1.SuccessPolicy, completions int, done indexes) (message string, met bool) {
	if policy == nil || len(done) == 0 {
		return "", false
	}
	for i, r := range policy.Rules {
		switch {
		case r.SucceededIndexes != nil:
			want := parseIndexes(*r.SucceededIndexes, completions)
			if len(want) == 0 {
				continue
			}
			n := done.shared(want)
			met = n == want.total() || r.SucceededCount != nil && n >= int(*r.SucceededCount)
		case r.SucceededCount != nil:
			met = done.total() >= int(*r.SucceededCount)
		}
		if met {
			return fmt.Sprintf("Matched rules at index %d", i), true
		}
	}
	return "", false
}
