package resources

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// countResources are counted in whole objects.
var countResources = []v1.ResourceName{
	v1.ResourcePods, v1.ResourceQuotas, v1.ResourceServices, v1.ResourceReplicationControllers, v1.ResourceSecrets,
	v1.ResourceConfigMaps, v1.ResourcePersistentVolumeClaims, v1.ResourceServicesNodePorts, v1.ResourceServicesLoadBalancers,
}

// computeResources are measured.
var computeResources = []v1.ResourceName{
	v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage,
	v1.ResourceRequestsCPU, v1.ResourceRequestsMemory, v1.ResourceRequestsStorage, v1.ResourceRequestsEphemeralStorage,
	v1.ResourceLimitsCPU, v1.ResourceLimitsMemory, v1.ResourceLimitsEphemeralStorage,
}

// podComputeResources are those of computeResources that pods alone use.
var podComputeResources = []v1.ResourceName{
	v1.ResourceCPU, v1.ResourceMemory,
	v1.ResourceLimitsCPU, v1.ResourceLimitsMemory, v1.ResourceRequestsCPU, v1.ResourceRequestsMemory,
}

func isQuotaHugePages(name v1.ResourceName) bool {
	return isHugePage(name) || strings.HasPrefix(string(name), v1.ResourceRequestsHugePagesPrefix)
}

func isQuotaResource(name v1.ResourceName) bool {
	return slices.Contains(countResources, name) || slices.Contains(computeResources, name) || isQuotaHugePages(name)
}

func isExtendedResource(name v1.ResourceName) bool {
	if isNativeResource(name) || strings.HasPrefix(string(name), v1.DefaultResourceRequestsPrefix) {
		return false
	}
	return len(validation.IsQualifiedName(v1.DefaultResourceRequestsPrefix+string(name))) == 0
}

// checkResourceName asks for a standard resource or a name with a prefix.
func checkResourceName(name v1.ResourceName, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range validation.IsQualifiedName(string(name)) {
		errs = append(errs, field.Invalid(path, name, msg))
	}
	if len(errs) == 0 && !strings.Contains(string(name), "/") && !isQuotaResource(name) && name != v1.ResourceStorage {
		errs = append(errs, field.Invalid(path, name, "must be a standard resource type or fully qualified"))
	}
	return errs
}

// checkContainerResourceName asks for a resource that a container can have.
func checkContainerResourceName(name v1.ResourceName, path *field.Path) field.ErrorList {
	errs := checkResourceName(name, path)
	if !strings.Contains(string(name), "/") {
		switch name {
		case v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage:
		default:
			if !isHugePage(name) {
				errs = append(errs, field.Invalid(path, name, "must be a standard resource for containers"))
			}
		}
	} else if !isNativeResource(name) && !isExtendedResource(name) {
		errs = append(errs, field.Invalid(path, name, "doesn't follow extended resource name standard"))
	}
	return errs
}

// checkQuotaResourceName asks for a resource that a quota can limit.
func checkQuotaResourceName(name v1.ResourceName, path *field.Path) field.ErrorList {
	errs := checkResourceName(name, path)
	if !strings.Contains(string(name), "/") && !isQuotaResource(name) {
		errs = append(errs, field.Invalid(path, name, "must be a standard resource for quota"))
	}
	return errs
}

// checkQuantity asks for zero or more, in whole numbers where the resource is
// counted.
func checkQuantity(name v1.ResourceName, q resource.Quantity, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if q.Sign() < 0 {
		errs = append(errs, field.Invalid(path, q.String(), apivalidation.IsNegativeErrorMsg))
	}
	if (slices.Contains(countResources, name) || isExtendedResource(name)) && q.MilliValue()%1000 != 0 {
		errs = append(errs, field.Invalid(path, q, "must be an integer"))
	}
	return errs
}

// checkHugePages asks for whole pages.
func checkHugePages(name v1.ResourceName, q resource.Quantity, path *field.Path) field.ErrorList {
	if !isHugePage(name) {
		return nil
	}
	size, err := resource.ParseQuantity(strings.TrimPrefix(string(name), v1.ResourceHugePagesPrefix))
	if err != nil || size.Sign() > 0 && q.Value()%size.Value() == 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, q.String(), q.String()+" is not positive integer multiple of "+string(name))}
}
