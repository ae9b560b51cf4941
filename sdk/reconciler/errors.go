package reconciler

import "errors"

// StatusError is the API's refusal; Code is the HTTP status, Reason
// Kubernetes' word for it.
type StatusError struct {
	Code            int
	Reason, Message string
}

func (e *StatusError) Error() string { return e.Message }

func reason(err error) string {
	var status *StatusError
	if errors.As(err, &status) {
		return status.Reason
	}
	return ""
}

// IsNotFound reports whether the object is not there.
func IsNotFound(err error) bool { return reason(err) == "NotFound" }

// IsAlreadyExists reports whether an object of that name is there.
func IsAlreadyExists(err error) bool { return reason(err) == "AlreadyExists" }

// IsConflict reports whether the object was changed by somebody else meanwhile.
func IsConflict(err error) bool { return reason(err) == "Conflict" }

// IsForbidden reports whether the manifest's rules do not allow it.
func IsForbidden(err error) bool { return reason(err) == "Forbidden" }
