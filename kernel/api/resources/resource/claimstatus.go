package resource

import (
	"fmt"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"pintle.dev/pintle/kernel/api/resources"
)

// deviceID is a device, or a share of one, in a pool of a driver.
type deviceID struct{ driver, pool, device, share string }

// String is upstream's form.
func (d deviceID) String() string {
	s := fmt.Sprintf("%s/%s/%s", d.driver, d.pool, d.device)
	if d.share != "" {
		s += "/" + d.share
	}
	return s
}

func statusID(d *resourcev1.AllocatedDeviceStatus) deviceID {
	id := deviceID{driver: d.Driver, pool: d.Pool, device: d.Device}
	if d.ShareID != nil {
		id.share = *d.ShareID
	}
	return id
}

// allocated are the devices that a claim has.
func allocated(s *resourcev1.ResourceClaimStatus) map[deviceID]struct{} {
	out := map[deviceID]struct{}{}
	if s.Allocation == nil {
		return out
	}
	for _, r := range s.Allocation.Devices.Results {
		id := deviceID{driver: r.Driver, pool: r.Pool, device: r.Device}
		if r.ShareID != nil {
			id.share = string(*r.ShareID)
		}
		out[id] = struct{}{}
	}
	return out
}

func validateClaimStatus(o, old *resourcev1.ResourceClaim) field.ErrorList {
	s, before := &o.Status, &old.Status
	reserved, allocation := statusPath.Child("reservedFor"), statusPath.Child("allocation")
	errs := set(s.ReservedFor, resourcev1.ResourceClaimReservedForMaxSize, reserved,
		func(c resourcev1.ResourceClaimConsumerReference) types.UID { return c.UID }, validateConsumer)
	has := allocated(s)
	errs = append(errs, set(s.Devices, -1, statusPath.Child("devices"),
		func(d resourcev1.AllocatedDeviceStatus) deviceID { return statusID(&d) },
		func(d resourcev1.AllocatedDeviceStatus, path *field.Path) field.ErrorList {
			return validateDeviceStatus(&d, has, path)
		})...)
	if len(s.ReservedFor) > 0 {
		switch {
		case s.Allocation == nil:
			errs = append(errs, field.Forbidden(reserved, "may not be specified when `allocated` is not set"))
		case o.DeletionTimestamp != nil && slices.ContainsFunc(s.ReservedFor, func(c resourcev1.ResourceClaimConsumerReference) bool {
			return !slices.Contains(before.ReservedFor, c)
		}):
			errs = append(errs, field.Forbidden(reserved, "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"))
		}
	}
	switch {
	case s.Allocation == nil:
		return errs
	case before.Allocation != nil:
		return append(errs, apivalidation.ValidateImmutableField(s.Allocation, before.Allocation, allocation)...)
	}
	return append(errs, validateAllocation(s.Allocation, requestsOf(&o.Spec.Devices), allocation)...)
}

func validateConsumer(c resourcev1.ResourceClaimConsumerReference, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, f := range [][2]string{{"resource", c.Resource}, {"name", c.Name}, {"uid", string(c.UID)}} {
		if f[1] == "" {
			errs = append(errs, field.Required(path.Child(f[0]), ""))
		}
	}
	return errs
}

// validateAllocation checks one that is new: stored ones may be of looser rules.
func validateAllocation(a *resourcev1.AllocationResult, names requests, path *field.Path) field.ErrorList {
	devices := path.Child("devices")
	errs := list(a.Devices.Results, resourcev1.AllocationResultsMaxSize, devices.Child("results"),
		func(r resourcev1.DeviceRequestAllocationResult, path *field.Path) field.ErrorList {
			errs := names.validateReference(r.Request, path.Child("request"))
			errs = append(errs, validateDriver(r.Driver, path.Child("driver"))...)
			errs = append(errs, validatePool(r.Pool, path.Child("pool"))...)
			errs = append(errs, validateLabel(r.Device, path.Child("device"))...)
			errs = append(errs, validateBinding(r.BindingConditions, r.BindingFailureConditions, path)...)
			if r.ShareID != nil {
				errs = append(errs, validateShare(string(*r.ShareID), path.Child("shareID"))...)
			}
			return errs
		})
	errs = append(errs, list(a.Devices.Config, 2*resourcev1.DeviceConfigMaxSize, devices.Child("config"),
		func(c resourcev1.DeviceAllocationConfiguration, path *field.Path) field.ErrorList {
			var errs field.ErrorList
			sources := []resourcev1.AllocationConfigSource{resourcev1.AllocationConfigSourceClaim, resourcev1.AllocationConfigSourceClass}
			if c.Source == "" {
				errs = append(errs, field.Required(path.Child("source"), ""))
			} else if !slices.Contains(sources, c.Source) {
				errs = append(errs, field.NotSupported(path.Child("source"), c.Source, sources))
			}
			errs = append(errs, names.validateReferences(c.Requests, path.Child("requests"))...)
			return append(errs, validateConfiguration(&c.DeviceConfiguration, false, path)...)
		})...)
	if a.NodeSelector != nil {
		errs = append(errs, resources.ValidateNodeSelector(a.NodeSelector, path.Child("nodeSelector"))...)
	}
	return errs
}

// validateBinding: conditions that a device waits for, and those by which it fails;
// there are both or neither.
func validateBinding(conditions, failures []string, path *field.Path) field.ErrorList {
	at, failing := path.Child("bindingConditions"), path.Child("bindingFailureConditions")
	errs := list(conditions, resourcev1.BindingConditionsMaxSize, at, metav1validation.ValidateLabelName)
	errs = append(errs, list(failures, resourcev1.BindingFailureConditionsMaxSize, failing, metav1validation.ValidateLabelName)...)
	for i, c := range conditions {
		if slices.Contains(conditions[:i], c) {
			errs = append(errs, field.Duplicate(at.Index(i), c))
		}
	}
	for i, c := range failures {
		if slices.Contains(failures[:i], c) {
			errs = append(errs, field.Duplicate(failing.Index(i), c))
		}
		if slices.Contains(conditions, c) {
			errs = append(errs, field.Invalid(failing.Index(i), c, "bindingFailureConditions must not overlap with bindingConditions"))
		}
	}
	switch {
	case len(conditions) == 0 && len(failures) > 0:
		errs = append(errs, field.Invalid(at, conditions, "bindingConditions are required to use bindingFailureConditions"))
	case len(failures) == 0 && len(conditions) > 0:
		errs = append(errs, field.Invalid(failing, failures, "bindingFailureConditions are required to use bindingConditions"))
	}
	return errs
}

func validateDeviceStatus(d *resourcev1.AllocatedDeviceStatus, has map[deviceID]struct{}, path *field.Path) field.ErrorList {
	errs := validateDriver(d.Driver, path.Child("driver"))
	errs = append(errs, validatePool(d.Pool, path.Child("pool"))...)
	errs = append(errs, validateLabel(d.Device, path.Child("device"))...)
	if d.ShareID != nil {
		errs = append(errs, validateShare(*d.ShareID, path.Child("shareID"))...)
	}
	if _, ok := has[statusID(d)]; !ok {
		errs = append(errs, field.Invalid(path, statusID(d), "must be an allocated device in the claim"))
	}
	if most := resourcev1.AllocatedDeviceStatusMaxConditions; len(d.Conditions) > most {
		errs = append(errs, field.TooMany(path.Child("conditions"), len(d.Conditions), most))
	}
	errs = append(errs, metav1validation.ValidateConditions(d.Conditions, path.Child("conditions"))...)
	if d.Data != nil && len(d.Data.Raw) > 0 {
		errs = append(errs, validateObject(*d.Data, false, resourcev1.AllocatedDeviceStatusDataMaxLength, path.Child("data"))...)
	}
	if n := d.NetworkData; n != nil {
		at := path.Child("networkData")
		if most := resourcev1.NetworkDeviceDataInterfaceNameMaxLength; len(n.InterfaceName) > most {
			errs = append(errs, field.TooLong(at.Child("interfaceName"), "", most))
		}
		if most := resourcev1.NetworkDeviceDataHardwareAddressMaxLength; len(n.HardwareAddress) > most {
			errs = append(errs, field.TooLong(at.Child("hardwareAddress"), "", most))
		}
		errs = append(errs, set(n.IPs, resourcev1.NetworkDeviceDataMaxIPs, at.Child("ips"), itself, func(ip string, path *field.Path) field.ErrorList {
			return validation.IsValidInterfaceAddress(path, ip)
		})...)
	}
	return errs
}
