import Testing

/// The state of receiving requests and replying belongs to the whole process: its tests run one after the other.
@Suite(.serialized) struct RequestHandlingTests {}
