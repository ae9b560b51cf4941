package sdk

import (
	"strings"
	"time"
)

// The functions below follow contract/v1/cycle.proto field by field.

func decodeCycle(data []byte, c *cycleCall) error {
	return message(data, "cycle request", func(f *field) (err error) {
		switch f.tag {
		case 1:
			c.deltas = append(c.deltas, f.bytes)
		case 2:
			c.generation = f.number
		case 3:
			var s cycleStep
			err = decodeStep(f.bytes, &s)
			c.steps = append(c.steps, s)
		case 4:
			var p QueuedPod
			p, err = decodeQueuedPod(f.bytes)
			c.pods = append(c.pods, p)
		case 5:
			c.classID = uint32(f.number)
		case 6:
			c.nodeID = uint32(f.number)
		case 7:
			c.nodeName = f.text()
		case 8:
			c.hasNode = f.number != 0
		case 9:
			c.nodeIDs, err = numbers(c.nodeIDs, f)
		case 10:
			c.refused, err = numbers(c.refused, f)
		case 11:
			var r refusal
			err = message(f.bytes, "refusal", func(f *field) error {
				switch f.tag {
				case 1:
					r.plugin = f.text()
				case 2:
					r.reasons = append(r.reasons, f.text())
				case 3:
					r.code = Code(f.number)
				}
				return nil
			})
			c.refusals = append(c.refusals, r)
		case 12:
			var e Event
			e, err = decodeEvent(f.bytes)
			c.events = append(c.events, e)
		case 13:
			c.classes, err = numbers(c.classes, f)
		case 14:
			c.standing, err = decodeStanding(f.bytes)
		case 15:
			err = c.candidate(f.bytes)
		case 16:
			c.helpful = uint32(f.number)
		}
		return err
	})
}

func decodeStep(data []byte, s *cycleStep) error {
	return message(data, "step", func(f *field) (err error) {
		switch f.tag {
		case 1:
			s.plugin = f.text()
		case 2:
			s.point = point(min(f.number, 255))
		case 3:
			s.socket = f.text()
		case 4:
			var w waitingPod
			err = message(f.bytes, "waiting pod", func(f *field) error {
				switch f.tag {
				case 1:
					w.uid = f.text()
				case 2:
					w.node = uint32(f.number)
				case 3:
					w.since = time.Duration(f.number)
				}
				return nil
			})
			s.waiting = append(s.waiting, w)
		}
		return err
	})
}

func decodeQueuedPod(data []byte) (QueuedPod, error) {
	p := QueuedPod{Pod: &Pod{}}
	err := message(data, "queued pod", func(f *field) (err error) {
		switch f.tag {
		case 1:
			err = decodePod(f.bytes, p.Pod)
		case 2:
			p.Queued = time.Unix(0, int64(f.number))
		case 3:
			p.Created = time.Unix(int64(f.number), 0)
		case 4:
			p.Attempts = int(int32(f.number))
		}
		return err
	})
	return p, err
}

// numbers takes in one field of a repeated number, packed or not.
func numbers(list []uint32, f *field) ([]uint32, error) {
	if f.kind == wireVarint {
		return append(list, uint32(f.number)), nil
	}
	w := wire{data: f.bytes}
	for len(w.data) > 0 && !w.bad {
		list = append(list, uint32(w.varint()))
	}
	if w.bad {
		return nil, ErrDelta
	}
	return list, nil
}

// appendStepResult appends a result as one of a CycleResponse.
func appendStepResult(out []byte, r *stepResult) []byte {
	var m []byte
	m = appendStatus(m, &r.status)
	m = appendNumber(m, 3, boolean(r.narrowed))
	if len(r.nodes) > 0 {
		var packed []byte
		for _, n := range r.nodes {
			packed = appendVarint(packed, uint64(n))
		}
		m = appendBytes(m, 4, packed)
	}
	for _, k := range r.keys {
		m = appendBytes(m, 5, appendText(appendNumber(nil, 1, uint64(k.Number)), 2, k.Text))
	}
	for k := range r.admissions {
		m = appendBytes(m, 6, appendStatus(nil, &r.admissions[k]))
	}
	m = appendNumber(m, 7, uint64(r.status.Timeout))
	for _, d := range r.decisions {
		m = appendBytes(m, 8, appendText(appendNumber(appendText(nil, 1, d.uid), 2, boolean(d.allow)), 3, d.reason))
	}
	if n := r.nomination.Node; n != nil {
		nomination := appendNumber(nil, 1, uint64(n.Index))
		for _, v := range r.nomination.Victims {
			nomination = appendBytes(nomination, 2, []byte(v.UID))
		}
		m = appendBytes(m, 9, nomination)
	}
	m = appendNumber(m, 10, boolean(r.status.bound))
	for k, v := range r.annotations {
		m = appendBytes(m, 11, appendText(appendText(nil, 1, k), 2, v))
	}
	m = appendNumber(m, 12, uint64(max(r.took, 0)))
	if len(r.helps) > 0 {
		var packed []byte
		for _, n := range r.helps {
			packed = appendVarint(packed, uint64(n))
		}
		m = appendBytes(m, 13, packed)
	}
	m = appendTrial(m, r)
	for k := range r.assumed {
		m = appendBytes(m, 17, appendAssumption(nil, &r.assumed[k]))
	}
	return appendBytes(out, 1, m)
}

func appendAssumption(out []byte, a *Assumption) []byte {
	out = appendBytes(out, 1, appendText(appendText(appendText(nil, 1, a.Kind), 2, a.Namespace), 3, a.Name))
	if c := a.Claim; c != nil {
		out = appendBytes(out, 2, appendText(appendText(appendText(nil, 1, c.Namespace), 2, c.Name), 3, c.UID))
	}
	for k, v := range a.Annotations {
		out = appendBytes(out, 3, appendText(appendText(nil, 1, k), 2, v))
	}
	return out
}

// appendStatus appends code and reasons, which have the same numbers in
// StepResult and Admission.
func appendStatus(out []byte, s *Status) []byte {
	out = appendNumber(out, 1, uint64(s.Code))
	for k, reason := range s.Reasons {
		if k == maxStepReasons {
			break
		}
		out = appendBytes(out, 2, []byte(strings.ToValidUTF8(reason, "\uFFFD")))
	}
	return out
}

func boolean(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

func appendVarint(out []byte, v uint64) []byte {
	for v >= 0x80 {
		out = append(out, byte(v)|0x80)
		v >>= 7
	}
	return append(out, byte(v))
}

// appendNumber appends a varint field, unless it is 0.
func appendNumber(out []byte, tag uint32, v uint64) []byte {
	if v == 0 {
		return out
	}
	return appendVarint(appendVarint(out, uint64(tag)<<3|wireVarint), v)
}

func appendBytes(out []byte, tag uint32, data []byte) []byte {
	out = appendVarint(appendVarint(out, uint64(tag)<<3|wireBytes), uint64(len(data)))
	return append(out, data...)
}

// appendText appends a string field, unless it is empty.
func appendText(out []byte, tag uint32, text string) []byte {
	if text == "" {
		return out
	}
	return appendBytes(out, tag, []byte(strings.ToValidUTF8(text, "\uFFFD")))
}
