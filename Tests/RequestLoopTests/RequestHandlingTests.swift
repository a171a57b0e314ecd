import Testing

/// How requests are received and answered is decided for a whole process: tests of it follow one another.
@Suite(.serialized) struct RequestHandlingTests {}
