package flowcontrol

import (
	"fmt"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	flowcontrolv1beta3 "k8s.io/api/flowcontrol/v1beta3"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
	"k8s.io/apiserver/pkg/util/shufflesharding"
)

// maxQueues is how many queues a level may have.
const maxQueues = 10 * 1000 * 1000

func validatePriorityLevel(o *flowcontrolv1.PriorityLevelConfiguration) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&o.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, metadataPath)
	if _, ok := o.Annotations[flowcontrolv1beta3.PriorityLevelPreserveZeroConcurrencySharesKey]; ok {
		errs = append(errs, field.Forbidden(metadataPath.Child("annotations"),
			fmt.Sprintf("annotation '%s' is forbidden", flowcontrolv1beta3.PriorityLevelPreserveZeroConcurrencySharesKey)))
	}
	errs = append(errs, validatePriorityLevelSpec(o.Name, &o.Spec)...)
	errs = append(errs, validateMandatoryLevel(o)...)
	return append(errs, validatePriorityLevelStatus(&o.Status)...)
}

func validatePriorityLevelStatus(s *flowcontrolv1.PriorityLevelConfigurationStatus) field.ErrorList {
	return validateConditions(s.Conditions, func(c flowcontrolv1.PriorityLevelConfigurationCondition) string { return string(c.Type) })
}

// validateMandatoryLevel holds the two levels that no server is without to what they are.
func validateMandatoryLevel(o *flowcontrolv1.PriorityLevelConfiguration) field.ErrorList {
	m, ok := mandatory(bootstrap.MandatoryPriorityLevelConfigurations, o.Name)
	if !ok {
		return nil
	}
	have, words := o.Spec.DeepCopy(), "spec of '%s' must equal the fixed value"
	if o.Name == flowcontrolv1.PriorityLevelConfigurationNameExempt {
		have.Exempt, words = m.Spec.Exempt, "spec of '%s' except the 'spec.exempt' field must equal the fixed value"
	}
	if apiequality.Semantic.DeepEqual(*have, m.Spec) {
		return nil
	}
	return field.ErrorList{field.Invalid(specPath, o.Spec, fmt.Sprintf(words, o.Name))}
}

func validatePriorityLevelSpec(name string, s *flowcontrolv1.PriorityLevelConfigurationSpec) field.ErrorList {
	var errs field.ErrorList
	kind, limited, exempt := specPath.Child("type"), specPath.Child("limited"), specPath.Child("exempt")
	if (name == flowcontrolv1.PriorityLevelConfigurationNameExempt) != (s.Type == flowcontrolv1.PriorityLevelEnablementExempt) {
		errs = append(errs, field.Invalid(kind, s.Type, "must be 'Exempt' if and only if `name` is 'exempt'"))
	}
	switch s.Type {
	case flowcontrolv1.PriorityLevelEnablementExempt:
		if s.Limited != nil {
			errs = append(errs, field.Forbidden(limited, "must be nil if the type is not Limited"))
		}
		if s.Exempt != nil {
			errs = append(errs, notNegative(s.Exempt.NominalConcurrencyShares, exempt.Child("nominalConcurrencyShares"), "must be a non-negative integer")...)
			errs = append(errs, percent(s.Exempt.LendablePercent, exempt.Child("lendablePercent"))...)
		}
	case flowcontrolv1.PriorityLevelEnablementLimited:
		if s.Exempt != nil {
			errs = append(errs, field.Forbidden(exempt, "must be nil if the type is Limited"))
		}
		if s.Limited == nil {
			errs = append(errs, field.Required(limited, "must not be empty when type is Limited"))
		} else {
			errs = append(errs, validateLimited(s.Limited, limited)...)
		}
	case "":
		errs = append(errs, field.Required(kind, ""))
	default:
		errs = append(errs, field.NotSupported(kind, s.Type, []flowcontrolv1.PriorityLevelEnablement{
			flowcontrolv1.PriorityLevelEnablementExempt, flowcontrolv1.PriorityLevelEnablementLimited}))
	}
	return errs
}

func validateLimited(l *flowcontrolv1.LimitedPriorityLevelConfiguration, path *field.Path) field.ErrorList {
	errs := notNegative(l.NominalConcurrencyShares, path.Child("nominalConcurrencyShares"), "must be a non-negative integer")
	response, kind, queuing := l.LimitResponse, path.Child("limitResponse", "type"), path.Child("limitResponse", "queuing")
	switch response.Type {
	case flowcontrolv1.LimitResponseTypeReject:
		if response.Queuing != nil {
			errs = append(errs, field.Forbidden(queuing, "must be nil if limited.limitResponse.type is not Limited"))
		}
	case flowcontrolv1.LimitResponseTypeQueue:
		if response.Queuing == nil {
			errs = append(errs, field.Required(queuing, "must not be empty if limited.limitResponse.type is Limited"))
		} else {
			errs = append(errs, validateQueuing(response.Queuing, queuing)...)
		}
	case "":
		errs = append(errs, field.Required(kind, ""))
	default:
		errs = append(errs, field.NotSupported(kind, response.Type, []flowcontrolv1.LimitResponseType{
			flowcontrolv1.LimitResponseTypeQueue, flowcontrolv1.LimitResponseTypeReject}))
	}
	errs = append(errs, percent(l.LendablePercent, path.Child("lendablePercent"))...)
	return append(errs, notNegative(l.BorrowingLimitPercent, path.Child("borrowingLimitPercent"), "if specified, must be a non-negative integer")...)
}

func validateQueuing(q *flowcontrolv1.QueuingConfiguration, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	invalid := func(name string, value int32, words string) {
		errs = append(errs, field.Invalid(path.Child(name), value, words))
	}
	if q.QueueLengthLimit <= 0 {
		invalid("queueLengthLimit", q.QueueLengthLimit, "must be positive")
	}
	if q.Queues <= 0 {
		invalid("queues", q.Queues, "must be positive")
	} else if q.Queues > maxQueues {
		invalid("queues", q.Queues, fmt.Sprintf("must not be greater than %d", maxQueues))
	}
	if q.HandSize <= 0 {
		invalid("handSize", q.HandSize, "must be positive")
	} else if q.HandSize > q.Queues {
		invalid("handSize", q.HandSize, fmt.Sprintf("should not be greater than queues (%d)", q.Queues))
	} else if bits := shufflesharding.RequiredEntropyBits(int(q.Queues), int(q.HandSize)); bits > shufflesharding.MaxHashBits {
		invalid("handSize", q.HandSize, fmt.Sprintf("required entropy bits of deckSize %d and handSize %d should not be greater than %d",
			q.Queues, q.HandSize, shufflesharding.MaxHashBits))
	}
	return errs
}

func notNegative(v *int32, path *field.Path, words string) field.ErrorList {
	if v != nil && *v < 0 {
		return field.ErrorList{field.Invalid(path, *v, words)}
	}
	return nil
}

func percent(v *int32, path *field.Path) field.ErrorList {
	if v != nil && (*v < 0 || *v > 100) {
		return field.ErrorList{field.Invalid(path, *v, "must be between 0 and 100, inclusive")}
	}
	return nil
}
